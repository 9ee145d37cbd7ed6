//! What the names of mapped fields mean: `ids.doi` stands in an object, `authors[]` is a list.
//!
//! ```text
//! title                   a value
//! venue.title             a value in an object
//! venue.issn[]            a list: each match one value, each value once
//! authors[]               with `authors[].family` beside it: each match one object
//! authors[].family        its path begins at the author
//! ```
//! A list of objects whose path has pipes is made of the values they give (`$.authors | split(';')`); the paths of its
//! members are then `$`, the value itself.

use crate::path::{Extract, JsonQuery, Path, XmlTarget};
use crate::spec::snapshot::{FieldSpec, Format};

/// Deepest nesting of a name.
const DEPTH_MAX: usize = 8;

/// Fields as a tree; numbers are places in the list of fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mapped {
    Value(usize),
    Values(usize),
    Object(Members),
    Objects(usize, Members),
}

/// In the order of their first mention.
pub type Members = Vec<(String, Mapped)>;

/// Why the fields make no tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismapped {
    pub field: String,
    pub message: String,
    pub hint: &'static str,
}

/// Lower-case names joined by dots, each perhaps with `[]`.
pub fn is_field_name(text: &str) -> bool {
    let plain = |part: &str| {
        let part = part.strip_suffix("[]").unwrap_or(part);
        part.starts_with(|first: char| first.is_ascii_lowercase())
            && part
                .chars()
                .all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "-_".contains(letter))
    };
    text.len() <= 64 && text.split('.').count() <= DEPTH_MAX && text.split('.').all(plain)
}

/// The tree of the fields, or everything that is wrong with it.
pub fn mapping(fields: &[FieldSpec], format: Format) -> Result<Members, Vec<Mismapped>> {
    let (mut members, mut wrong) = (Members::new(), Vec::new());
    for (at, field) in fields.iter().enumerate() {
        let parts: Vec<&str> = field.name.split('.').collect();
        if let Err((message, hint)) = place(&mut members, &parts, at, fields, "") {
            wrong.push(Mismapped { field: field.name.clone(), message, hint });
        }
    }
    for (at, field) in fields.iter().enumerate() {
        let begins = format!("{}.", field.name);
        let objects = field.name.ends_with("[]") && fields.iter().any(|other| other.name.starts_with(&begins));
        let inside = field.name.split('.').rev().skip(1).any(|part| part.ends_with("[]"));
        let made = objects && is_piped(field, format);
        let checked = match made {
            true => check_made(fields, &begins, format),
            false => check_path(&fields[at], format, objects, inside),
        };
        if let Err((message, hint)) = checked {
            wrong.push(Mismapped { field: field.name.clone(), message, hint });
        }
    }
    if wrong.is_empty() { Ok(members) } else { Err(wrong) }
}

type Wrong = (String, &'static str);

fn place(members: &mut Members, parts: &[&str], at: usize, fields: &[FieldSpec], above: &str) -> Result<(), Wrong> {
    let Some((first, rest)) = parts.split_first() else { return Ok(()) };
    let name = first.strip_suffix("[]").unwrap_or(first);
    let whole = if above.is_empty() { (*first).to_owned() } else { format!("{above}.{first}") };
    let is_list = name.len() < first.len();
    let known = members.iter().position(|(known, _)| known == name);
    let found = match known {
        Some(found) => found,
        None => {
            let new = match (is_list, rest.is_empty()) {
                (false, true) => Mapped::Value(at),
                (false, false) => Mapped::Object(Members::new()),
                (true, true) => Mapped::Values(at),
                (true, false) => Mapped::Objects(list_of(&whole, fields)?, Members::new()),
            };
            members.push((name.to_owned(), new));
            members.len() - 1
        }
    };
    let entry = &mut members[found].1;
    if let (Mapped::Values(list), true, false) = (&*entry, is_list, rest.is_empty()) {
        *entry = Mapped::Objects(*list, Members::new());
    }
    match (entry, is_list) {
        (Mapped::Object(inner), false) | (Mapped::Objects(_, inner), true) if !rest.is_empty() => {
            place(inner, rest, at, fields, &whole)
        }
        (Mapped::Objects(list, _), true) if *list == at => Ok(()),
        (Mapped::Value(one) | Mapped::Values(one), _) if *one == at => Ok(()),
        _ => Err((format!("`{whole}` is used as two different things"), "a name is a value, an object or a list")),
    }
}

fn list_of(whole: &str, fields: &[FieldSpec]) -> Result<usize, Wrong> {
    let missing =
        || (format!("`{whole}` itself has no path"), "say where its elements are, e.g. `authors[]: \"$.author[*]\"`");
    fields.iter().position(|field| field.name == whole).ok_or_else(missing)
}

/// Whether the elements of a list are made by pipes.
pub fn is_piped(field: &FieldSpec, format: Format) -> bool {
    let extract = Extract::parse(&field.path, format);
    extract.is_ok_and(|extract| extract.alternatives.iter().any(|one| !one.pipes.is_empty()))
}

/// Members of elements that pipes made have nothing to follow a path in.
fn check_made(fields: &[FieldSpec], begins: &str, format: Format) -> Result<(), Wrong> {
    let own = |path: &Path| match path {
        Path::Json(JsonQuery::Steps(steps)) => steps.is_empty(),
        Path::Json(_) => false,
        Path::Xml(path) => path.steps.is_empty() && path.target == XmlTarget::Text,
    };
    let plain = |field: &&FieldSpec| {
        let Ok(extract) = Extract::parse(&field.path, format) else { return true };
        !field.name[begins.len()..].contains(['.', '[']) && extract.alternatives.iter().all(|one| own(&one.path))
    };
    match fields.iter().filter(|field| field.name.starts_with(begins)).all(|field| plain(&field)) {
        true => Ok(()),
        false => {
            Err(("its elements are made by pipes, so its members are the value itself".into(), "write `$` or `.`"))
        }
    }
}

/// The elements of a list of objects are followed while reading, so their paths are plain.
fn check_path(field: &FieldSpec, format: Format, objects: bool, inside: bool) -> Result<(), Wrong> {
    // A path that cannot be read at all is told by the check of paths.
    let Ok(extract) = Extract::parse(&field.path, format) else { return Ok(()) };
    for one in &extract.alternatives {
        match &one.path {
            Path::Json(JsonQuery::Query(_)) if objects || inside => {
                let hint = "use names, indices and `*`; `required: true` on a member leaves out elements without it";
                return Err(("a list of objects cannot be asked for with filters, slices or `..`".into(), hint));
            }
            Path::Xml(path) if objects && path.target != XmlTarget::Text => {
                return Err(("the elements of a list of objects are elements".into(), "leave out the attribute"));
            }
            Path::Xml(path) if inside && path.absolute => {
                return Err(("a member's path begins at its element".into(), "leave out the leading `/`"));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(pairs: &[(&str, &str)]) -> Vec<FieldSpec> {
        let field =
            |(name, path): &(&str, &str)| FieldSpec { name: (*name).into(), path: (*path).into(), required: false };
        pairs.iter().map(field).collect()
    }

    #[test]
    fn names_make_a_tree_in_any_order() {
        let list = fields(&[
            ("title", "$.t"),
            ("ids.doi", "$.d"),
            ("authors[].family", "$.f"),
            ("authors[]", "$.a[*]"),
            ("ids.isbn[]", "$.i"),
            ("authors[].affiliations[]", "$.x[*]"),
            ("authors[].affiliations[].name", "$.n"),
        ]);
        let tree = mapping(&list, Format::Json).unwrap();
        let affiliation = Mapped::Objects(5, vec![("name".into(), Mapped::Value(6))]);
        let want = vec![
            ("title".into(), Mapped::Value(0)),
            ("ids".into(), Mapped::Object(vec![("doi".into(), Mapped::Value(1)), ("isbn".into(), Mapped::Values(4))])),
            (
                "authors".into(),
                Mapped::Objects(3, vec![("family".into(), Mapped::Value(2)), ("affiliations".into(), affiliation)]),
            ),
        ];
        assert_eq!(tree, want);
    }

    #[test]
    fn what_makes_no_tree_is_told() {
        for (list, format, message) in [
            (&[("a", "$.a"), ("a.b", "$.b")][..], Format::Json, "two different things"),
            (&[("a[]", "$.a"), ("a", "$.b")], Format::Json, "two different things"),
            (&[("a[].b", "$.b")], Format::Json, "has no path"),
            (&[("a[]", "$.a | split(';')"), ("a[].b", "$.b")], Format::Json, "the value itself"),
            (&[("a[]", "$.a[?@.x]"), ("a[].b", "$.b")], Format::Json, "filters"),
            (&[("a[]", "$.a[*]"), ("a[].b", "$.b[?@.x]")], Format::Json, "filters"),
            (&[("a[]", "a/@b"), ("a[].b", "b")], Format::Xml, "are elements"),
            (&[("a[]", "a"), ("a[].b", "/b")], Format::Xml, "begins at its element"),
        ] {
            let wrong = mapping(&fields(list), format).unwrap_err();
            assert!(wrong[0].message.contains(message), "{list:?}: {wrong:?}");
        }
        assert!(mapping(&fields(&[("a[]", "$.a[?@.x].id | doi")]), Format::Json).is_ok());
        assert!(mapping(&fields(&[("a[]", "$.a | split(';')"), ("a[].b", "$ | plain")]), Format::Json).is_ok());
    }

    #[test]
    fn field_names_are_names_joined_by_dots() {
        for good in ["title", "ids.doi", "authors[]", "authors[].affiliations[].name", "extra.x-1"] {
            assert!(is_field_name(good), "{good}");
        }
        for bad in ["", "Title", "a.", ".a", "a[].", "a[", "a b", "a[0]", "a..b"] {
            assert!(!is_field_name(bad), "{bad}");
        }
    }
}
