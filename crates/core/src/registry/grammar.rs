//! The grammar of a source definition as one table of keys.
//!
//! The decoder, the JSON Schema, the registry columns and the overrides of a trigger all read this table, so they
//! cannot drift apart. The blocks themselves are in [`source_keys`](super::source_keys) and
//! [`endpoint_keys`](super::endpoint_keys).

/// A set of keys that stand together.
pub struct Block {
    pub name: &'static str,
    pub doc: &'static str,
    pub keys: &'static [Key],
}

impl Block {
    pub fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }
}

pub struct Key {
    pub name: &'static str,
    pub kind: Kind,
    pub stored: Stored,
    pub required: bool,
    pub doc: &'static str,
}

/// Where a key's value goes in the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// One column of the block's table.
    Column(&'static str),
    /// A nested block whose keys are columns of the same table.
    Flat,
    /// Rows of `reg_expr_field_dict`, one per path.
    Paths,
    /// Rows of another table.
    Rows,
}

/// What a value may be.
#[derive(Clone, Copy)]
pub enum Kind {
    Text,
    /// Lower-case letters, digits, `-` and `_`; names things across tables, metrics and URLs.
    Name,
    Flag,
    Integer {
        min: i64,
        max: i64,
    },
    /// A share of one: `0.005` or `0.5%`.
    Share,
    /// A number of at least one.
    Factor,
    /// ISO-8601 length (`PT10M`), never negative.
    Span,
    /// ISO-8601 instant or day.
    Time,
    Zone,
    Url,
    Template,
    /// A path into the answer, in the response's format.
    Path,
    Pattern,
    /// `env:NAME` or `file:PATH`.
    Secret,
    /// A code of a dictionary.
    Code(&'static str),
    /// A list; a single value stands for a list of one.
    List(&'static Kind),
    Block(&'static Block),
    /// A block for which a single value may stand: the value of the named key.
    Short(&'static Block, &'static str),
    /// Names to values, in the order written.
    Table(&'static Kind),
    /// Names to texts, order without meaning.
    Map,
    /// Any JSON; texts in it are templates.
    Json,
}

impl Kind {
    /// What to tell a person who wrote something else.
    pub fn expected(&self) -> String {
        match self {
            Kind::Text => "a text".into(),
            Kind::Name => "a name of lower-case letters, digits, `-` and `_`".into(),
            Kind::Flag => "true or false".into(),
            Kind::Integer { min, max: i64::MAX } => format!("a whole number of at least {min}"),
            Kind::Integer { min, max } => format!("a whole number from {min} to {max}"),
            Kind::Share => "a share such as 0.005 or 0.5%".into(),
            Kind::Factor => "a number of at least 1".into(),
            Kind::Span => "an ISO-8601 length such as PT10M or P1D".into(),
            Kind::Time => "an ISO-8601 time such as 2002-01-01T00:00:00Z".into(),
            Kind::Zone => "an IANA time zone such as UTC or America/New_York".into(),
            Kind::Url => "a URL such as https://api.example.org".into(),
            Kind::Template => "a template such as ${page.size}".into(),
            Kind::Path => "a path such as $.items[*] or record/header".into(),
            Kind::Pattern => "a regular expression".into(),
            Kind::Secret => "a reference such as env:NAME or file:/run/secrets/name".into(),
            Kind::Code(code) => {
                let words =
                    super::dictionary::dictionary(code).map(|dictionary| dictionary.words()).unwrap_or_default();
                format!("one of {}", words.join(", "))
            }
            Kind::List(kind) => format!("a list, each {}", kind.expected()),
            Kind::Block(block) => format!("a block with {}", names(block)),
            Kind::Short(block, short) => {
                let short = block.key(short).map(|key| key.kind.expected()).unwrap_or_default();
                format!("{short}, or a block with {}", names(block))
            }
            Kind::Table(kind) => format!("names, each with {}", kind.expected()),
            Kind::Map => "names, each with a text".into(),
            Kind::Json => "a JSON value".into(),
        }
    }
}

pub fn names(block: &Block) -> String {
    block.keys.iter().map(|key| key.name).collect::<Vec<_>>().join(", ")
}

pub(super) const fn key(name: &'static str, column: &'static str, kind: Kind, doc: &'static str) -> Key {
    Key { name, kind, stored: Stored::Column(column), required: false, doc }
}

pub(super) const fn flat(name: &'static str, block: &'static Block, doc: &'static str) -> Key {
    Key { name, kind: Kind::Block(block), stored: Stored::Flat, required: false, doc }
}

pub(super) const fn rows(name: &'static str, kind: Kind, doc: &'static str) -> Key {
    Key { name, kind, stored: Stored::Rows, required: false, doc }
}

pub(super) const fn paths(name: &'static str, kind: Kind, doc: &'static str) -> Key {
    Key { name, kind, stored: Stored::Paths, required: false, doc }
}

pub(super) const fn required(key: Key) -> Key {
    Key { required: true, ..key }
}

pub(super) const ANY: i64 = i64::MAX;

pub(super) const fn integer(min: i64, max: i64) -> Kind {
    Kind::Integer { min, max }
}
