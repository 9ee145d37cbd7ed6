//! What a record says about other records: which one it was merged into, which ones it is a notice about.
//!
//! A definition names the mapped fields that hold such ids (`response.merged_into`, `response.signals`). A pointer is only a
//! hint: whoever is pointed to is asked for again, and what the source answers then is what counts.

use serde_json::Value;

use crate::spec::snapshot::ResponseSpec;

/// An id that a record points to, and what kind of notice it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pointer {
    pub id: String,
    pub kind: String,
}

/// The kind of a notice that does not say what it does.
const PLAIN_NOTICE: &str = "NOTICE";

/// Where the records of a response hold their pointers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pointers {
    merged_into: Option<Vec<String>>,
    notices: Option<Vec<String>>,
}

/// What one record points to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PointsTo {
    pub merged_into: Option<String>,
    pub notices: Vec<Pointer>,
}

impl Pointers {
    pub fn of(response: &ResponseSpec) -> Pointers {
        let steps = |name: &String| name.split('.').map(|step| step.trim_end_matches("[]").to_owned()).collect();
        Pointers {
            merged_into: response.merged_into.as_ref().map(steps),
            notices: response.signals.as_ref().map(steps),
        }
    }

    /// The pointers of a record, without those to itself.
    pub fn read(&self, own: &str, fields: &str) -> PointsTo {
        if self.merged_into.is_none() && self.notices.is_none() {
            return PointsTo::default();
        }
        let Ok(fields) = serde_json::from_str::<Value>(fields) else { return PointsTo::default() };
        let found = |steps: &Option<Vec<String>>| {
            let mut found = Vec::new();
            if let Some(steps) = steps {
                collect(&fields, steps, None, &mut found);
            }
            found.retain(|pointer| pointer.id != own);
            found.sort();
            found.dedup_by(|later, earlier| later.id == earlier.id);
            found
        };
        PointsTo {
            merged_into: found(&self.merged_into).into_iter().next().map(|pointer| pointer.id),
            notices: found(&self.notices),
        }
    }
}

/// Follows the steps through objects and lists; the object that holds the id says what kind of notice it is.
fn collect(value: &Value, steps: &[String], kind: Option<&str>, found: &mut Vec<Pointer>) {
    match (value, steps) {
        (Value::Array(items), _) => items.iter().for_each(|item| collect(item, steps, kind, found)),
        (Value::Object(fields), [step, rest @ ..]) => {
            let kind = fields.get("kind").and_then(Value::as_str);
            if let Some(next) = fields.get(step) {
                collect(next, rest, kind, found);
            }
        }
        (Value::String(id), []) if !id.is_empty() => found.push(Pointer { id: id.clone(), kind: kind_of(kind) }),
        (Value::Number(id), []) => found.push(Pointer { id: id.to_string(), kind: kind_of(kind) }),
        _ => {}
    }
}

fn kind_of(kind: Option<&str>) -> String {
    kind.map_or_else(|| PLAIN_NOTICE.to_owned(), |kind| kind.to_ascii_uppercase().replace('-', "_"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::sample;

    fn pointers(merged_into: Option<&str>, signals: Option<&str>) -> Pointers {
        let mut response = sample::snapshot().response;
        response.merged_into = merged_into.map(str::to_owned);
        response.signals = signals.map(str::to_owned);
        Pointers::of(&response)
    }

    #[test]
    fn notices_name_what_they_are_about() {
        let notices = pointers(None, Some("updates[].doi"));
        let fields = r#"{"updates":[{"kind":"retraction","doi":"10.1/a"},{"doi":"10.1/b"},{"kind":"correction"},
            {"kind":"correction","doi":"10.1/own"},{"kind":"correction","doi":"10.1/a"}]}"#;
        let kinds: Vec<(String, String)> =
            notices.read("10.1/own", fields).notices.into_iter().map(|pointer| (pointer.id, pointer.kind)).collect();
        let want = [("10.1/a", "CORRECTION"), ("10.1/b", "NOTICE")].map(|(id, kind)| (id.into(), kind.into()));
        assert_eq!(kinds, want);
        for nothing in ["{}", "not json", r#"{"updates":"10.1/a"}"#, r#"{"updates":[{"doi":""}]}"#] {
            assert_eq!(notices.read("x", nothing), PointsTo::default(), "{nothing}");
        }
    }

    #[test]
    fn a_merged_record_names_its_survivor() {
        let merged = pointers(Some("extra.merged_into"), None);
        let read = |fields: &str| merged.read("a", fields).merged_into;
        assert_eq!(read(r#"{"extra":{"merged_into":"b"}}"#).as_deref(), Some("b"));
        assert_eq!(read(r#"{"extra":{"merged_into":17}}"#).as_deref(), Some("17"));
        assert_eq!(read(r#"{"extra":{"merged_into":"a"}}"#), None, "not into itself");
        assert_eq!(read(r#"{"extra":{}}"#), None);
        assert_eq!(pointers(None, None).read("a", r#"{"extra":{"merged_into":"b"}}"#), PointsTo::default());
    }
}
