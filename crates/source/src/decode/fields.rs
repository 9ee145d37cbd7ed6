//! The mapped fields of a record, written as one JSON text.
//!
//! What has no value is left out, and so is an object or list of which nothing is left. A required field must be
//! there, unless the record is a tombstone; inside a list of objects it decides about its element only.

use patra_core::page::BadReason;
use patra_core::path::Pipe;
use serde_json::Value;

use super::record::{Matches, Slots, Trouble, is_empty};

#[derive(Debug)]
pub enum Field {
    Value(Slots, bool),
    /// A list in which each value comes once.
    Values(Slots, bool),
    Object(Members),
    /// The first of the groups that has elements counts.
    Objects(Vec<(usize, Members)>, bool),
    /// Elements that pipes made: each member is the value through pipes of its own.
    Made(Slots, Vec<Made>, bool),
}

#[derive(Debug)]
pub struct Made {
    /// As it is written, in quotes and with its colon.
    pub name: String,
    pub pipes: Vec<Pipe>,
    pub required: bool,
}

/// Each name as it is written, in quotes and with its colon.
pub type Members = Vec<(String, Field)>;

/// The fields of one record.
pub fn write(members: &Members, matches: Matches<'_, '_>, deleted: bool) -> Result<String, Trouble> {
    let mut output = String::with_capacity(512);
    let mut writer = Writer { output: &mut output, deleted };
    writer.object(members, matches)?;
    if output.is_empty() {
        output.push_str("{}");
    }
    Ok(output)
}

struct Writer<'o> {
    output: &'o mut String,
    deleted: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wrote {
    Something,
    Nothing,
    /// A required member is missing, so the element of the list goes.
    Dropped,
}

impl Writer<'_> {
    /// Writes an object; nothing at all if it would be empty.
    fn object(&mut self, members: &Members, matches: Matches<'_, '_>) -> Result<Wrote, Trouble> {
        let start = self.output.len();
        self.output.push('{');
        for (name, field) in members {
            let before = self.output.len();
            if before > start + 1 {
                self.output.push(',');
            }
            self.output.push_str(name);
            match self.field(name, field, matches)? {
                Wrote::Something => {}
                Wrote::Nothing => self.output.truncate(before),
                Wrote::Dropped => {
                    self.output.truncate(start);
                    return Ok(Wrote::Dropped);
                }
            }
        }
        if self.output.len() == start + 1 {
            self.output.truncate(start);
            return Ok(Wrote::Nothing);
        }
        self.output.push('}');
        Ok(Wrote::Something)
    }

    fn field(&mut self, name: &str, field: &Field, matches: Matches<'_, '_>) -> Result<Wrote, Trouble> {
        let (wrote, required, place) = match field {
            Field::Object(members) => return self.object(members, matches),
            Field::Value(slots, required) => (self.value(name, slots, matches)?, *required, slots.text.as_str()),
            Field::Values(slots, required) => (self.values(name, slots, matches)?, *required, slots.text.as_str()),
            Field::Made(slots, members, required) => {
                (self.made(name, slots, members, matches)?, *required, slots.text.as_str())
            }
            Field::Objects(groups, required) => (self.objects(groups, matches)?, *required, "its list"),
        };
        match (wrote, required) {
            (Wrote::Nothing, true) if matches.is_inside() => Ok(Wrote::Dropped),
            (Wrote::Nothing, true) if !self.deleted => {
                Err((BadReason::MissingField, plain(name), format!("nothing at `{place}`")))
            }
            (wrote, _) => Ok(wrote),
        }
    }

    fn value(&mut self, name: &str, slots: &Slots, matches: Matches<'_, '_>) -> Result<Wrote, Trouble> {
        let one = slots.value(matches).map_err(|message| (BadReason::BadField, plain(name), message))?;
        let Some(one) = one else { return Ok(Wrote::Nothing) };
        one.write(self.output).map_err(|message| (BadReason::BadText, plain(name), message))?;
        Ok(Wrote::Something)
    }

    fn values(&mut self, name: &str, slots: &Slots, matches: Matches<'_, '_>) -> Result<Wrote, Trouble> {
        let bad = |message| (BadReason::BadField, plain(name), message);
        let Some(one) = slots.value(matches).map_err(bad)? else { return Ok(Wrote::Nothing) };
        let mut all = Vec::new();
        flatten(one.tree().map_err(bad)?, &mut all);
        if all.is_empty() {
            return Ok(Wrote::Nothing);
        }
        super::record::One::Tree(Value::Array(all))
            .write(self.output)
            .map_err(|message| (BadReason::BadText, plain(name), message))?;
        Ok(Wrote::Something)
    }

    fn made(
        &mut self,
        name: &str,
        slots: &Slots,
        members: &[Made],
        matches: Matches<'_, '_>,
    ) -> Result<Wrote, Trouble> {
        let bad = |message| (BadReason::BadField, plain(name), message);
        let Some(one) = slots.value(matches).map_err(bad)? else { return Ok(Wrote::Nothing) };
        let mut all = Vec::new();
        flatten(one.tree().map_err(bad)?, &mut all);
        let start = self.output.len();
        self.output.push('[');
        for value in all {
            let before = self.output.len();
            if before > start + 1 {
                self.output.push(',');
            }
            if !self.element(name, value, members)? {
                self.output.truncate(before);
            }
        }
        if self.output.len() == start + 1 {
            self.output.truncate(start);
            return Ok(Wrote::Nothing);
        }
        self.output.push(']');
        Ok(Wrote::Something)
    }

    fn element(&mut self, name: &str, value: Value, members: &[Made]) -> Result<bool, Trouble> {
        let start = self.output.len();
        self.output.push('{');
        for member in members {
            let own = member.pipes.iter().fold(value.clone(), |value, pipe| pipe.apply(value));
            if is_empty(&own) && member.required {
                return Ok(false);
            }
            if is_empty(&own) {
                continue;
            }
            if self.output.len() > start + 1 {
                self.output.push(',');
            }
            self.output.push_str(&member.name);
            let wrote = super::record::One::Tree(own).write(self.output);
            wrote.map_err(|message| (BadReason::BadText, plain(name), message))?;
        }
        self.output.push('}');
        Ok(self.output.len() > start + 2)
    }

    fn objects(&mut self, groups: &[(usize, Members)], matches: Matches<'_, '_>) -> Result<Wrote, Trouble> {
        let start = self.output.len();
        for (group, members) in groups {
            self.output.push('[');
            for element in matches.scope.elements(*group) {
                let before = self.output.len();
                if before > start + 1 {
                    self.output.push(',');
                }
                if self.object(members, matches.of(*group, element))? != Wrote::Something {
                    self.output.truncate(before);
                }
            }
            if self.output.len() > start + 1 {
                self.output.push(']');
                return Ok(Wrote::Something);
            }
            self.output.truncate(start);
        }
        Ok(Wrote::Nothing)
    }
}

/// Values of lists inside lists, each once.
fn flatten(value: Value, all: &mut Vec<Value>) {
    match value {
        Value::Array(items) => items.into_iter().for_each(|item| flatten(item, all)),
        one if is_empty(&one) || all.contains(&one) => {}
        one => all.push(one),
    }
}

/// The name as people wrote it.
fn plain(written: &str) -> String {
    written.trim_matches(['"', ':']).to_owned()
}
