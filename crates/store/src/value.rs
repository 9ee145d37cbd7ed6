//! What goes into a statement and what comes out of a row. Nonsense becomes `Corrupt`, never a default.

use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;
use patra_core::hash::Hash32;
use patra_core::id::Id;
use patra_core::ports::LedgerError;
use patra_core::time::Timestamp;
use patra_core::window::Window;
use uuid::Uuid;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Int(i64),
    Text(String),
    /// Bound to many rows without being copied for each.
    Shared(Arc<str>),
    Bytes(Vec<u8>),
    Time(Timestamp),
}

impl Value {
    /// About as many bytes as it takes on the way to the database.
    pub fn size(&self) -> usize {
        match self {
            Value::Null | Value::Int(_) => 8,
            Value::Time(_) => 32,
            Value::Text(value) => value.len(),
            Value::Shared(value) => value.len(),
            Value::Bytes(value) => value.len(),
        }
    }
}

/// Parameters of a statement by name.
macro_rules! params {
    ($($name:ident: $value:expr),* $(,)?) => {
        vec![$((stringify!($name), $crate::value::Value::from($value))),*]
    };
}
pub(crate) use params;

macro_rules! value_from {
    ($($kind:ty => |$value:ident| $make:expr),+ $(,)?) => {
        $(impl From<$kind> for Value {
            fn from($value: $kind) -> Value { $make }
        })+
    };
}

value_from! {
    i64 => |value| Value::Int(value),
    u32 => |value| Value::Int(i64::from(value)),
    u8 => |value| Value::Int(i64::from(value)),
    bool => |value| Value::Int(i64::from(value)),
    // Counts beyond i64 do not occur; the greatest is kept rather than wrapped.
    u64 => |value| Value::Int(i64::try_from(value).unwrap_or(i64::MAX)),
    usize => |value| Value::Int(i64::try_from(value).unwrap_or(i64::MAX)),
    Id => |value| Value::Int(value.0),
    &str => |value| Value::Text(value.to_owned()),
    String => |value| Value::Text(value),
    &String => |value| Value::Text(value.clone()),
    Arc<str> => |value| Value::Shared(value),
    Vec<u8> => |value| Value::Bytes(value),
    &Bytes => |value| Value::Bytes(value.to_vec()),
    Hash32 => |value| Value::Bytes(value.bytes().to_vec()),
    Uuid => |value| Value::Bytes(value.as_bytes().to_vec()),
    Timestamp => |value| Value::Time(value),
    serde_json::Value => |value| Value::Text(value.to_string()),
    &serde_json::Value => |value| Value::Text(value.to_string()),
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::Null, Into::into)
    }
}

/// A row as read, with the table it is named after in errors.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub table: &'static str,
    pub names: Arc<[String]>,
    pub values: Vec<Value>,
}

impl Row {
    pub fn get(&self, column: &str) -> Result<&Value, LedgerError> {
        let at = self.names.iter().position(|name| name == column);
        at.and_then(|at| self.values.get(at)).ok_or_else(|| self.corrupt(column, "the column was not read"))
    }

    pub fn int(&self, column: &str) -> Result<i64, LedgerError> {
        match self.get(column)? {
            Value::Int(value) => Ok(*value),
            _ => Err(self.corrupt(column, "an integer was expected")),
        }
    }

    pub fn opt_int(&self, column: &str) -> Result<Option<i64>, LedgerError> {
        self.optional(column, Row::int)
    }

    /// A count that fits its Rust type.
    pub fn count<T: TryFrom<i64>>(&self, column: &str) -> Result<T, LedgerError> {
        T::try_from(self.int(column)?).map_err(|_| self.corrupt(column, "the number is out of range"))
    }

    pub fn id(&self, column: &str) -> Result<Id, LedgerError> {
        self.int(column).map(Id)
    }

    pub fn text(&self, column: &str) -> Result<&str, LedgerError> {
        match self.get(column)? {
            Value::Text(value) => Ok(value),
            _ => Err(self.corrupt(column, "a text was expected")),
        }
    }

    pub fn string(&self, column: &str) -> Result<String, LedgerError> {
        self.text(column).map(str::to_owned)
    }

    pub fn opt_text(&self, column: &str) -> Result<Option<&str>, LedgerError> {
        match self.get(column)? {
            Value::Null => Ok(None),
            _ => self.text(column).map(Some),
        }
    }

    pub fn bytes(&self, column: &str) -> Result<&[u8], LedgerError> {
        match self.get(column)? {
            Value::Bytes(value) => Ok(value),
            _ => Err(self.corrupt(column, "bytes were expected")),
        }
    }

    /// Read from text by its `FromStr`.
    pub fn parsed<T: FromStr>(&self, column: &str) -> Result<T, LedgerError> {
        let text = self.text(column)?;
        text.parse().map_err(|_| self.corrupt(column, &format!("`{text}` cannot be read")))
    }

    /// Read by a `from_code` function.
    pub fn code<T>(&self, column: &str, from_code: impl Fn(&str) -> Option<T>) -> Result<T, LedgerError> {
        let text = self.text(column)?;
        from_code(text).ok_or_else(|| self.corrupt(column, &format!("`{text}` is no known code")))
    }

    /// A native time, or its text where the database has none.
    pub fn time(&self, column: &str) -> Result<Timestamp, LedgerError> {
        match self.get(column)? {
            Value::Time(value) => Ok(*value),
            _ => self.parsed(column),
        }
    }

    pub fn opt_time(&self, column: &str) -> Result<Option<Timestamp>, LedgerError> {
        self.optional(column, Row::time)
    }

    pub fn window(&self) -> Result<Window, LedgerError> {
        let (from, to) = (self.time("window_from")?, self.time("window_to")?);
        Window::new(from, to).ok_or_else(|| self.corrupt("window_to", "the window is empty or inverted"))
    }

    /// A digest stored as 32 bytes or as hex text.
    pub fn hash(&self, column: &str) -> Result<Hash32, LedgerError> {
        if matches!(self.get(column)?, Value::Text(_)) {
            return self.parsed(column);
        }
        let bytes: [u8; 32] =
            self.bytes(column)?.try_into().map_err(|_| self.corrupt(column, "32 bytes were expected"))?;
        Ok(Hash32::from_bytes(bytes))
    }

    pub fn opt_hash(&self, column: &str) -> Result<Option<Hash32>, LedgerError> {
        match self.get(column)? {
            Value::Null => Ok(None),
            _ => self.hash(column).map(Some),
        }
    }

    pub fn uuid(&self, column: &str) -> Result<Uuid, LedgerError> {
        Uuid::from_slice(self.bytes(column)?).map_err(|_| self.corrupt(column, "16 bytes were expected"))
    }

    pub fn json<T: serde::de::DeserializeOwned>(&self, column: &str) -> Result<T, LedgerError> {
        serde_json::from_str(self.text(column)?).map_err(|error| self.corrupt(column, &error.to_string()))
    }

    pub fn opt_json<T: serde::de::DeserializeOwned>(&self, column: &str) -> Result<Option<T>, LedgerError> {
        self.optional(column, Row::json)
    }

    pub fn corrupt(&self, column: &str, message: &str) -> LedgerError {
        let at = self.names.iter().position(|name| name == "id");
        let row = match at.and_then(|at| self.values.get(at)) {
            Some(Value::Int(id)) => *id,
            _ => 0,
        };
        LedgerError::Corrupt { table: self.table, column: column.to_owned(), row, message: message.to_owned() }
    }

    fn optional<T>(
        &self,
        column: &str,
        read: impl Fn(&Row, &str) -> Result<T, LedgerError>,
    ) -> Result<Option<T>, LedgerError> {
        match self.get(column)? {
            Value::Null => Ok(None),
            _ => read(self, column).map(Some),
        }
    }
}
