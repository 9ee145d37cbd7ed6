//! The one bibliographic shape that mapped records of all sources have; `docs/record.md` explains it.
//!
//! A definition that says `response.shape: bibliographic` may use these names only, and `extra.*` for what belongs to
//! its source alone. Most names want a pipe, so that the same thing is written alike whatever the source wrote.

use crate::path::{Codes, Extract, Pipe};
use crate::spec::snapshot::{FieldSpec, Format};

/// What the value of a name must have gone through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// Any text.
    Text,
    /// Elements of a list of objects.
    Objects,
    /// The pipe of an identifier, `language` or `licence`.
    Pipe(&'static str),
    /// `partial_date` or `date`.
    Date,
    /// `int` or `count`.
    Number,
    Flag,
    /// `codes` into this list.
    Code(&'static [&'static str]),
}

pub struct Name {
    pub name: &'static str,
    pub wants: Wants,
    pub doc: &'static str,
}

/// Kinds of records.
pub const TYPES: &[&str] = &[
    "article",
    "review",
    "editorial",
    "letter",
    "news",
    "case-report",
    "preprint",
    "conference-paper",
    "proceedings",
    "book",
    "chapter",
    "reference-entry",
    "thesis",
    "report",
    "standard",
    "patent",
    "peer-review",
    "protocol",
    "correction",
    "retraction",
    "concern",
    "dataset",
    "software",
    "image",
    "video",
    "audio",
    "model",
    "component",
    "journal",
    "issue",
    "trial",
    "grant",
    "safety-report",
    "organisation",
    "person",
    "other",
];

/// What is known against a record. Nothing said is nothing known.
pub const STATUSES: &[&str] = &["retracted", "withdrawn", "removed", "concern", "corrected", "reinstated"];

/// What a notice does to a record.
pub const UPDATES: &[&str] = &[
    "retraction",
    "withdrawal",
    "removal",
    "concern",
    "correction",
    "reinstatement",
    "republication",
    "version",
    "comment",
    "other",
];

const fn name(name: &'static str, wants: Wants, doc: &'static str) -> Name {
    Name { name, wants, doc }
}

#[rustfmt::skip]
pub static BIBLIOGRAPHIC: &[Name] = &[
    name("ids.doi", Wants::Pipe("doi"), "DOI in lower case, without resolver."),
    name("ids.pmid", Wants::Pipe("pmid"), "PubMed id."),
    name("ids.pmcid", Wants::Pipe("pmcid"), "PubMed Central id, `PMC1234567`."),
    name("ids.arxiv", Wants::Pipe("arxiv"), "arXiv id without version."),
    name("ids.isbn[]", Wants::Pipe("isbn"), "ISBNs, digits only."),
    name("ids.orcid", Wants::Pipe("orcid"), "ORCID iD of a person."),
    name("ids.ror", Wants::Pipe("ror"), "ROR id of an organisation."),
    name("ids.nct", Wants::Text, "ClinicalTrials.gov id."),
    name("ids.openalex", Wants::Text, "OpenAlex id."),
    name("ids.semanticscholar", Wants::Text, "Semantic Scholar id."),
    name("ids.core", Wants::Text, "CORE id."),
    name("ids.other[]", Wants::Text, "Identifiers of other kinds, as written."),
    name("title", Wants::Text, "Title as text, without markup."),
    name("title_original", Wants::Text, "Title in the language of the work."),
    name("abstract", Wants::Text, "Abstract as text."),
    name("authors[]", Wants::Objects, "Authors in their order."),
    name("authors[].name", Wants::Text, "Whole name, where the source does not take it apart."),
    name("authors[].given", Wants::Text, "Given names or initials."),
    name("authors[].family", Wants::Text, "Family name."),
    name("authors[].group", Wants::Text, "Name of a group that stands as an author."),
    name("authors[].orcid", Wants::Pipe("orcid"), "ORCID iD whose check digit fits."),
    name("authors[].affiliations[]", Wants::Objects, "Where the author works."),
    name("authors[].affiliations[].name", Wants::Text, "Affiliation as written."),
    name("authors[].affiliations[].ror", Wants::Pipe("ror"), "ROR id of it."),
    name("editors[]", Wants::Objects, "Editors of a book or volume."),
    name("editors[].name", Wants::Text, "Whole name."),
    name("editors[].given", Wants::Text, "Given names or initials."),
    name("editors[].family", Wants::Text, "Family name."),
    name("editors[].orcid", Wants::Pipe("orcid"), "ORCID iD."),
    name("venue.title", Wants::Text, "Journal, book, conference or repository it appeared in."),
    name("venue.abbreviation", Wants::Text, "Short title of it."),
    name("venue.issn[]", Wants::Pipe("issn"), "ISSNs of it, print and online."),
    name("venue.publisher", Wants::Text, "Publisher."),
    name("venue.volume", Wants::Text, "Volume."),
    name("venue.issue", Wants::Text, "Issue."),
    name("venue.pages", Wants::Text, "Pages or article number, as written."),
    name("venue.first_page", Wants::Text, "First page, where the source gives both apart."),
    name("venue.last_page", Wants::Text, "Last page."),
    name("dates.published", Wants::Date, "When it appeared: the source's own choice of one date."),
    name("dates.online", Wants::Date, "When it appeared online."),
    name("dates.print", Wants::Date, "When it appeared in print."),
    name("dates.received", Wants::Date, "When it was received or submitted."),
    name("dates.accepted", Wants::Date, "When it was accepted."),
    name("dates.posted", Wants::Date, "When this version was posted."),
    name("dates.created", Wants::Date, "When the source made its record."),
    name("dates.revised", Wants::Date, "When the source changed its record."),
    name("dates.started", Wants::Date, "When a study or grant began."),
    name("dates.ended", Wants::Date, "When it ended or will end."),
    name("version", Wants::Text, "Version of the work."),
    name("type", Wants::Code(TYPES), "Kind of record."),
    name("type_given[]", Wants::Text, "The source's own words for it."),
    name("language", Wants::Pipe("language"), "Language, two letters where it has them (ISO 639)."),
    name("subjects.mesh[]", Wants::Text, "MeSH headings."),
    name("subjects.keywords[]", Wants::Text, "Keywords of authors or source."),
    name("subjects.categories[]", Wants::Text, "Categories of the source's own scheme."),
    name("funding[]", Wants::Objects, "Who paid for it."),
    name("funding[].funder", Wants::Text, "Name of the funder."),
    name("funding[].doi", Wants::Pipe("doi"), "DOI of the funder (Open Funder Registry)."),
    name("funding[].ror", Wants::Pipe("ror"), "ROR id of the funder."),
    name("funding[].awards[]", Wants::Text, "Numbers of grants."),
    name("licence", Wants::Pipe("licence"), "`cc-by-4.0` and its kin; other licences as written."),
    name("open_access", Wants::Flag, "Whether the source says that it can be read freely."),
    name("links.landing", Wants::Text, "Its page."),
    name("links.fulltext[]", Wants::Text, "Its full text."),
    name("links.pdf[]", Wants::Text, "Its PDF."),
    name("status", Wants::Code(STATUSES), "What is known against it; absent where the source says nothing."),
    name("updates[]", Wants::Objects, "What this record is a notice about."),
    name("updates[].kind", Wants::Code(UPDATES), "What it does to it."),
    name("updates[].doi", Wants::Pipe("doi"), "DOI of what it is about."),
    name("updates[].pmid", Wants::Pipe("pmid"), "PubMed id of it."),
    name("updates[].date", Wants::Date, "When."),
    name("updates[].note", Wants::Text, "Citation or reason, as written."),
    name("updated_by[]", Wants::Objects, "Notices about this record."),
    name("updated_by[].kind", Wants::Code(UPDATES), "What it does to this record."),
    name("updated_by[].doi", Wants::Pipe("doi"), "DOI of the notice."),
    name("updated_by[].pmid", Wants::Pipe("pmid"), "PubMed id of it."),
    name("updated_by[].date", Wants::Date, "When."),
    name("updated_by[].note", Wants::Text, "Citation or reason, as written."),
    name("references_count", Wants::Number, "How many works it cites."),
];

/// What is wrong with a field of the shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misshaped {
    pub code: &'static str,
    pub message: String,
    pub hint: String,
}

/// Holds a mapped field against the shape.
pub fn check(field: &FieldSpec, format: Format) -> Option<Misshaped> {
    let wrong = |code, message: String, hint: String| Some(Misshaped { code, message, hint });
    if field.name.starts_with("extra.") {
        return None;
    }
    let Some(known) = BIBLIOGRAPHIC.iter().find(|known| known.name == field.name) else {
        let names = BIBLIOGRAPHIC.iter().map(|known| known.name);
        let hint = match crate::registry::diagnostic::closest(&field.name, names) {
            Some(near) => format!("did you mean `{near}`? What belongs to the source alone goes under `extra.`"),
            None => "what belongs to the source alone goes under `extra.`; `docs/record.md` has all names".to_owned(),
        };
        return wrong("unknown_field", format!("`{}` is not a name of the bibliographic shape", field.name), hint);
    };
    let extract = Extract::parse(&field.path, format).ok()?;
    let bare = extract.alternatives.iter().find(|one| !known.wants.is_met(&one.pipes))?;
    let codes = bare.pipes.iter().find_map(|pipe| if let Pipe::Codes(codes) = pipe { Some(codes) } else { None });
    match (known.wants, codes) {
        (Wants::Code(list), Some(codes)) => {
            let strange = strange(codes, list).unwrap_or_default();
            wrong("unknown_code", format!("`{strange}` is not one of our codes"), format!("use {}", list.join(", ")))
        }
        (wants, _) => wrong("field_pipe", format!("`{}` wants {}", field.name, wants.words()), known.doc.to_owned()),
    }
}

fn strange<'a>(codes: &'a Codes, list: &[&str]) -> Option<&'a str> {
    codes.ours().find(|ours| !list.contains(ours))
}

impl Wants {
    fn is_met(self, pipes: &[Pipe]) -> bool {
        let has = |wanted: &dyn Fn(&Pipe) -> bool| pipes.iter().any(wanted);
        match self {
            Wants::Text | Wants::Objects => true,
            Wants::Pipe("language") => has(&|pipe| *pipe == Pipe::Language),
            Wants::Pipe("licence") => has(&|pipe| *pipe == Pipe::Licence),
            Wants::Pipe(name) => has(&|pipe| matches!(pipe, Pipe::Id(kind) if kind.name() == name)),
            Wants::Date => has(&|pipe| matches!(pipe, Pipe::PartialDate | Pipe::Date)),
            Wants::Number => has(&|pipe| matches!(pipe, Pipe::Int | Pipe::Count)),
            Wants::Flag => has(&|pipe| *pipe == Pipe::Flag),
            Wants::Code(list) => has(&|pipe| matches!(pipe, Pipe::Codes(codes) if strange(codes, list).is_none())),
        }
    }

    /// As people read it.
    pub fn words(self) -> String {
        match self {
            Wants::Text => "a text".into(),
            Wants::Objects => "a list of objects".into(),
            Wants::Pipe(name) => format!("the pipe `{name}`"),
            Wants::Date => "the pipe `partial_date` or `date`".into(),
            Wants::Number => "the pipe `int` or `count`".into(),
            Wants::Flag => "the pipe `flag`".into(),
            Wants::Code(list) => format!("the pipe `codes`, into {}", list.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(name: &str, path: &str) -> Option<&'static str> {
        let field = FieldSpec { name: name.into(), path: path.into(), required: false };
        check(&field, Format::Json).map(|wrong| wrong.code)
    }

    #[test]
    fn fields_are_held_against_the_shape() {
        for (name, path, want) in [
            ("ids.doi", "$.DOI | doi", None),
            ("ids.doi", "$.DOI", Some("field_pipe")),
            ("ids.doi", "$.DOI | lower || $.x | doi", Some("field_pipe")),
            ("venue.issn[]", "$.ISSN[*] | issn", None),
            ("title", "$.title", None),
            ("titel", "$.title", Some("unknown_field")),
            ("extra.anything", "$.x", None),
            ("dates.published", "$.d | partial_date", None),
            ("dates.published", "$.d", Some("field_pipe")),
            ("type", "$.t | codes('a=article; *=other')", None),
            ("type", "$.t | codes('a=paper')", Some("unknown_code")),
            ("type", "$.t", Some("field_pipe")),
            ("references_count", "$.r[*] | count", None),
            ("open_access", "$.r", Some("field_pipe")),
        ] {
            assert_eq!(told(name, path), want, "{name}: {path}");
        }
    }

    #[test]
    fn the_document_has_every_name_as_the_table_has_it() {
        let document = include_str!("../../../docs/record.md");
        for known in BIBLIOGRAPHIC {
            let line = format!("| `{}` | {} |", known.name, known.doc);
            assert!(document.contains(&line), "docs/record.md lacks: {line}");
        }
        for code in TYPES.iter().chain(STATUSES).chain(UPDATES) {
            assert!(document.contains(&format!("`{code}`")), "docs/record.md lacks `{code}`");
        }
    }
}
