//! One Crossref work as JSON: partial dates, JATS tags in abstracts, face markup in titles.

use crate::content::{TitlePart, Work, json_list, json_text};
use crate::moment::{civil_in, iso_seconds};
use crate::truth::Face;

/// One work as it stands in `message.items`.
pub(crate) fn render(seed: u64, face: &Face<'_>) -> String {
    let work = Work::make(seed, face.id, face.content);
    let authors = json_list(work.authors.iter().enumerate().map(|(at, author)| {
        let sequence = if at == 0 { "first" } else { "additional" };
        format!(
            "{{\"given\":{},\"family\":{},\"sequence\":\"{sequence}\",\"affiliation\":[]}}",
            json_text(&author.given),
            json_text(&author.family)
        )
    }));
    let issued =
        if work.day == 28 { "[[null]]".to_owned() } else { format!("[[{},{},{}]]", work.year, work.month, work.day) };
    let prefix = face.id.split('/').next().unwrap_or_default();
    format!(
        "{{\"indexed\":{},\"reference-count\":{},\"publisher\":{},\"issue\":\"{}\",\"content-domain\":{{\"domain\":[],\"crossmark-restriction\":false}},\
         \"DOI\":{},\"type\":\"journal-article\",\"created\":{},\"page\":\"{}-{}\",\"source\":\"Crossref\",\"is-referenced-by-count\":{},\
         \"title\":[{}],\"prefix\":{},\"volume\":\"{}\",\"author\":{authors},\"member\":\"{}\",\"container-title\":[{}],\"abstract\":{},\
         \"deposited\":{},\"score\":0.0,\"issued\":{{\"date-parts\":{issued}}},\"references-count\":{},\"URL\":{},\"ISSN\":[{}],\"subject\":{}}}",
        stamp(face.updated_at),
        work.issue * 3,
        json_text(&work.publisher),
        work.issue,
        json_text(face.id),
        stamp(face.created_at),
        work.first_page,
        work.first_page + work.issue,
        work.cited_count,
        json_text(&title_text(&work)),
        json_text(prefix),
        work.volume,
        work.volume + 100,
        json_text(&work.journal),
        json_text(&format!("<jats:p>{}</jats:p>", work.summary)),
        stamp(face.created_at),
        work.issue * 3,
        json_text(&format!("https://doi.org/{}", face.id)),
        json_text(&work.issn),
        json_list(work.keywords.iter().map(|word| json_text(word))),
    )
}

/// Titles carry face markup, as deposited.
pub(crate) fn title_text(work: &Work) -> String {
    work.title
        .iter()
        .map(|part| match part {
            TitlePart::Text(text) => text.clone(),
            TitlePart::Italic(text) => format!("<i>{text}</i>"),
            TitlePart::Super(text) => format!("<sup>{text}</sup>"),
        })
        .collect()
}

fn stamp(at: i64) -> String {
    let day = civil_in(at, &jiff::tz::TimeZone::UTC);
    format!(
        "{{\"date-parts\":[[{},{},{}]],\"date-time\":\"{}\",\"timestamp\":{}}}",
        day.year(),
        day.month(),
        day.day(),
        iso_seconds(at),
        at.div_euclid(1000)
    )
}
