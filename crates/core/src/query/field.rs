//! The fields of the query language: their names, what kind of value they take, and where records keep them.

use std::fmt;

/// What a query can speak of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Field {
    Title,
    Abstract,
    /// Title or abstract; words without a field stand here.
    TitleAbstract,
    Author,
    Affiliation,
    Journal,
    Issn,
    Doi,
    Pmid,
    Type,
    Language,
    Mesh,
    Keyword,
    Funder,
    Orcid,
    Published,
    Updated,
}

/// How a value is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Words somewhere in a text.
    Text,
    /// Words of a name, in any order, initials allowed.
    Name,
    /// The whole value.
    Code,
    /// An identifier with a form of its own.
    Id,
    /// Days.
    Day,
}

struct Row {
    field: Field,
    name: &'static str,
    aliases: &'static [&'static str],
    kind: Kind,
    /// Where mapped records hold it: dotted paths through objects and lists, of which the first that gives something
    /// is taken (of types all are); `a|b` joins members of one object.
    records: &'static [&'static str],
}

#[rustfmt::skip]
const TABLE: [Row; 17] = [
    row(Field::Title, "title", &["ti"], Kind::Text, &["title"]),
    row(Field::Abstract, "abstract", &["ab", "abs"], Kind::Text, &["abstract"]),
    row(Field::TitleAbstract, "title_abstract", &["tiab"], Kind::Text, &["title", "abstract"]),
    row(Field::Author, "author", &["au", "auth", "creator"], Kind::Name, &["authors.family|given|group|name", "authors", "author", "creators"]),
    row(Field::Affiliation, "affiliation", &["ad", "aff"], Kind::Text, &["authors.affiliations.name", "affiliations", "affiliation"]),
    row(Field::Journal, "journal", &["ta", "jour", "venue"], Kind::Code, &["venue.title", "journal", "venue", "container"]),
    row(Field::Issn, "issn", &["is"], Kind::Id, &["venue.issn", "issns", "issn"]),
    row(Field::Doi, "doi", &[], Kind::Id, &["ids.doi", "doi"]),
    row(Field::Pmid, "pmid", &["uid"], Kind::Id, &["ids.pmid", "pmid"]),
    row(Field::Type, "type", &["pt"], Kind::Code, &["type", "type_given", "types"]),
    row(Field::Language, "language", &["lang", "la"], Kind::Code, &["language", "languages"]),
    row(Field::Mesh, "mesh", &["mh"], Kind::Code, &["subjects.mesh", "mesh"]),
    row(Field::Keyword, "keyword", &["kw"], Kind::Text, &["subjects.keywords", "keywords", "keyword"]),
    row(Field::Funder, "funder", &["gr", "grant"], Kind::Text, &["funding.funder", "funders", "funder"]),
    row(Field::Orcid, "orcid", &["auid"], Kind::Id, &["authors.orcid", "orcids", "orcid"]),
    row(Field::Published, "published", &["dp", "date"], Kind::Day, &["dates.published", "published"]),
    row(Field::Updated, "updated", &["mdat", "modified"], Kind::Day, &["dates.revised", "dates.updated", "updated"]),
];

const fn row(
    field: Field,
    name: &'static str,
    aliases: &'static [&'static str],
    kind: Kind,
    records: &'static [&'static str],
) -> Row {
    Row { field, name, aliases, kind, records }
}

impl Field {
    /// All fields, in the order of the table.
    pub fn all() -> impl Iterator<Item = Field> {
        TABLE.iter().map(|row| row.field)
    }

    /// The field that a name or alias stands for, without regard to case.
    pub fn named(written: &str) -> Option<Field> {
        let same = |word: &&str| word.eq_ignore_ascii_case(written);
        TABLE.iter().find(|row| same(&row.name) || row.aliases.iter().any(&same)).map(|row| row.field)
    }

    /// Every name and alias, for finding what was meant.
    pub fn spellings() -> impl Iterator<Item = &'static str> {
        TABLE.iter().flat_map(|row| std::iter::once(row.name).chain(row.aliases.iter().copied()))
    }

    fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    pub fn name(self) -> &'static str {
        self.row().name
    }

    pub fn aliases(self) -> &'static [&'static str] {
        self.row().aliases
    }

    pub fn kind(self) -> Kind {
        self.row().kind
    }

    /// Where mapped records hold it.
    pub fn records(self) -> &'static [&'static str] {
        self.row().records
    }

    /// Records with these mapped fields (`authors[].family`) show it.
    pub fn is_shown_by<'a>(self, mut mapped: impl Iterator<Item = &'a str>) -> bool {
        let held = |name: &str| {
            let plain = name.replace("[]", "");
            self.records().iter().any(|path| match path.rsplit_once('.') {
                Some((of, members)) => members.split('|').any(|member| plain == format!("{of}.{member}")),
                None => plain == *path,
            })
        };
        mapped.any(held)
    }

    /// What kind of value it takes, in a person's words.
    pub fn takes(self) -> &'static str {
        match (self.kind(), self) {
            (Kind::Text, _) => "words, \"a phrase\" or a prefix*",
            (Kind::Name, _) => "a name, such as smith or \"smith j\"",
            (Kind::Code, Field::Type) => "a type, such as review or article",
            (Kind::Code, Field::Language) => "a language, such as en or fr",
            (Kind::Code, Field::Journal) => "a title, such as nature or \"the lancet\"",
            (Kind::Code, _) => "a heading, such as \"heart failure\"",
            (Kind::Id, Field::Doi) => "a DOI, such as 10.1000/182",
            (Kind::Id, Field::Pmid) => "a PMID, such as 31452104",
            (Kind::Id, Field::Issn) => "an ISSN, such as 0140-6736",
            (Kind::Id, _) => "an ORCID iD, such as 0000-0002-1825-0097",
            (Kind::Day, _) => "a year, month or day, or [2020-01-01 TO 2021-01-01)",
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_means_one_field_and_the_table_is_in_order() {
        for (at, field) in Field::all().enumerate() {
            assert_eq!(field as usize, at);
            assert_eq!(Field::named(&field.name().to_uppercase()), Some(field));
            for alias in field.aliases() {
                assert_eq!(Field::named(alias), Some(field), "{alias}");
            }
        }
        let mut spellings: Vec<&str> = Field::spellings().collect();
        let all = spellings.len();
        spellings.sort_unstable();
        spellings.dedup();
        assert_eq!(spellings.len(), all);
    }
}
