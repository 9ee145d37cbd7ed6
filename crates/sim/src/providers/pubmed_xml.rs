//! One PubMed record as XML: mostly articles, some books; titles with markup, entities and character references.

use crate::content::{Author, TitlePart, Work, xml_text};
use crate::moment::{civil_in, zone};
use crate::rng::hash_text;
use crate::truth::Face;

pub(crate) const PROLOG: &str = "<?xml version=\"1.0\" ?>\n<!DOCTYPE PubmedArticleSet PUBLIC \"-//NLM//DTD PubMedArticle, 1st January 2025//EN\" \"https://dtd.nlm.nih.gov/ncbi/pubmed/out/pubmed_250101.dtd\">\n";

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// One element of a `PubmedArticleSet`.
pub(crate) fn render(seed: u64, face: &Face<'_>) -> String {
    let work = Work::make(seed, face.id, face.content);
    if is_book(face.id) { book(&work, face) } else { article(&work, face) }
}

/// Some ids are books, which come in an element of their own.
pub(crate) fn is_book(id: &str) -> bool {
    hash_text(id).is_multiple_of(50)
}

fn article(work: &Work, face: &Face<'_>) -> String {
    let keywords: String =
        work.keywords.iter().map(|word| format!("<Keyword MajorTopicYN=\"N\">{word}</Keyword>")).collect();
    format!(
        "<PubmedArticle><MedlineCitation Status=\"MEDLINE\" Owner=\"NLM\"><PMID Version=\"1\">{id}</PMID>{revised}\
         <Article PubModel=\"Print\"><Journal><ISSN IssnType=\"Electronic\">{issn}</ISSN><JournalIssue CitedMedium=\"Internet\">\
         <Volume>{volume}</Volume><Issue>{issue}</Issue><PubDate><Year>{year}</Year><Month>{month}</Month></PubDate></JournalIssue>\
         <Title>{journal}</Title></Journal><ArticleTitle>{title}</ArticleTitle><Pagination><MedlinePgn>{first}-{last}</MedlinePgn></Pagination>\
         <Abstract><AbstractText>{summary}</AbstractText></Abstract><AuthorList CompleteYN=\"Y\">{authors}</AuthorList><Language>eng</Language>\
         <PublicationTypeList><PublicationType UI=\"D016428\">Journal Article</PublicationType></PublicationTypeList></Article>\
         <KeywordList Owner=\"NOTNLM\">{keywords}</KeywordList></MedlineCitation><PubmedData><History>{history}</History>\
         <PublicationStatus>ppublish</PublicationStatus><ArticleIdList><ArticleId IdType=\"pubmed\">{id}</ArticleId>\
         <ArticleId IdType=\"doi\">10.5555/sim.{id}</ArticleId></ArticleIdList></PubmedData></PubmedArticle>",
        id = face.id,
        revised = date("DateRevised", "", face.updated_at),
        issn = work.issn,
        volume = work.volume,
        issue = work.issue,
        year = work.year,
        month = MONTHS[(work.month as usize - 1) % 12],
        journal = xml_text(&work.journal),
        title = title(work),
        first = work.first_page,
        last = work.first_page + work.issue,
        summary = xml_text(&work.summary),
        authors = work.authors.iter().map(author).collect::<String>(),
        history = date("PubMedPubDate", " PubStatus=\"pubmed\"", face.created_at),
    )
}

fn book(work: &Work, face: &Face<'_>) -> String {
    format!(
        "<PubmedBookArticle><BookDocument><PMID Version=\"1\">{id}</PMID><ArticleIdList><ArticleId IdType=\"bookaccession\">NBK{id}</ArticleId></ArticleIdList>\
         <Book><Publisher><PublisherName>{publisher}</PublisherName><PublisherLocation>London</PublisherLocation></Publisher>\
         <BookTitle book=\"sim{id}\">{title}</BookTitle><PubDate><Year>{year}</Year></PubDate><AuthorList Type=\"authors\">{authors}</AuthorList></Book>\
         <Language>eng</Language><Abstract><AbstractText>{summary}</AbstractText></Abstract>{revised}</BookDocument>\
         <PubmedBookData><PublicationStatus>ppublish</PublicationStatus><ArticleIdList><ArticleId IdType=\"pubmed\">{id}</ArticleId></ArticleIdList></PubmedBookData></PubmedBookArticle>",
        id = face.id,
        publisher = xml_text(&work.publisher),
        title = title(work),
        year = work.year,
        authors = work.authors.iter().map(author).collect::<String>(),
        summary = xml_text(&work.summary),
        revised = date("DateRevised", "", face.updated_at),
    )
}

/// Markup stays markup here; the Greek letter is written as a reference.
fn title(work: &Work) -> String {
    let parts = work.title.iter().map(|part| match part {
        TitlePart::Text(text) => xml_text(text).replace('\u{3b2}', "&#x3b2;"),
        TitlePart::Italic(text) => format!("<i>{}</i>", xml_text(text)),
        TitlePart::Super(text) => format!("<sup>{}</sup>", xml_text(text)),
    });
    parts.collect()
}

fn author(author: &Author) -> String {
    let initial: String = author.given.chars().take(1).collect();
    format!(
        "<Author ValidYN=\"Y\"><LastName>{}</LastName><ForeName>{}</ForeName><Initials>{initial}</Initials></Author>",
        xml_text(&author.family),
        xml_text(&author.given)
    )
}

fn date(element: &str, attributes: &str, at: i64) -> String {
    let day = civil_in(at, &zone("America/New_York"));
    format!(
        "<{element}{attributes}><Year>{}</Year><Month>{:02}</Month><Day>{:02}</Day></{element}>",
        day.year(),
        day.month(),
        day.day()
    )
}
