//! Recorded answers of real services, where they are at hand: every one must decode without a panic.

use std::path::PathBuf;

use bytes::Bytes;
use patra_source::decode::{Around, Decoded, ResponseProgram};
use serde_json::{Value, json};

use crate::testspec;

/// `PATRA_FIXTURES`, else beside the workspace; `None` says so and skips.
fn folder() -> Option<PathBuf> {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures");
    let folder = std::env::var_os("PATRA_FIXTURES").map_or(beside, PathBuf::from);
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: there are no recorded answers at {}", folder.display());
    None
}

fn body_of(folder: &std::path::Path, name: &str) -> Option<Bytes> {
    let inside = std::fs::read_dir(folder.join(name)).ok()?;
    let body = inside.flatten().find(|entry| entry.file_name().to_string_lossy().starts_with("body."))?;
    std::fs::read(body.path()).ok().map(Bytes::from)
}

fn decode(response: Value, next: Option<&str>, body: Bytes) -> Result<Decoded, String> {
    let mut all = json!({"updated_at": null, "total": null, "fields": []});
    all.as_object_mut().unwrap().extend(response.as_object().unwrap().clone());
    let spec = testspec::spec(json!({ "response": all })).response;
    let program = ResponseProgram::compile(&spec, Around { next_token: next, ..Around::default() }).unwrap();
    program.decode(body, None).map_err(|error| error.to_string())
}

#[test]
fn recorded_pages_of_real_services_are_decoded() {
    let Some(folder) = folder() else { return };
    let crossref = json!({"items": ["$.message.items[*]"], "id": ["$.DOI"], "updated_at": "$.indexed['date-time']",
        "total": "$.message['total-results']", "hash_exclude": ["$.indexed"],
        "fields": [{"name": "published", "path": "$.published['date-parts'][0] || $.issued['date-parts'][0] | partial_date", "required": false}]});
    let europepmc = json!({"items": ["$.resultList.result[*]"], "id": ["$.source", "$.id"], "updated_at": "$.firstIndexDate",
        "total": "$.hitCount"});
    let openalex =
        json!({"items": ["$.results[*]"], "id": ["$.id"], "updated_at": "$.updated_date", "total": "$.meta.count"});
    let datacite =
        json!({"items": ["$.data[*]"], "id": ["$.id"], "updated_at": "$.attributes.updated", "total": "$.meta.total"});
    let pubmed = json!({"format": "XML", "items": ["/PubmedArticleSet/PubmedArticle", "/PubmedArticleSet/PubmedBookArticle"],
        "id": ["MedlineCitation/PMID || BookDocument/PMID"], "updated_at": "MedlineCitation/DateRevised",
        "fields": [{"name": "title", "path": "MedlineCitation/Article/ArticleTitle", "required": false}]});
    let arxiv = json!({"format": "XML", "items": ["/feed/entry"], "id": ["id"], "updated_at": "updated", "total": "totalResults"});
    let oai = json!({"format": "XML", "items": ["ListRecords/record"], "id": ["header/identifier"],
        "updated_at": "header/datestamp", "deleted": "header[@status='deleted']"});
    let biorxiv = json!({"items": ["$.collection[*]"], "id": ["$.doi", "$.version"], "updated_at": "$.date", "total": "$.messages[0].total"});
    let mut seen = 0;
    for (name, response, next, least) in [
        ("crossref/seq-works-cursor-ecology-p01", crossref, Some("$.message['next-cursor']"), 1),
        ("europepmc/seq-cancer-cursormark-p01", europepmc, Some("$.nextCursorMark"), 1),
        ("openalex/seq-cursor-end-p01", openalex, Some("$.meta.next_cursor"), 1),
        ("datacite/seq-climate-page-p01", datacite, None, 1),
        ("pubmed/efetch-mathml", pubmed, None, 1),
        ("arxiv/seq-atom-offset-10-p01", arxiv, None, 1),
        ("oai-pmh/seq-pmc-oai-dc-p01", oai, Some("ListRecords/resumptionToken"), 1),
        ("biorxiv/details-biorxiv-2026-08", biorxiv, None, 30),
    ] {
        let Some(body) = body_of(&folder, name) else { continue };
        seen += 1;
        let page = decode(response, next, body).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(page.items.len() >= least, "{name}: {} items", page.items.len());
        let bad: Vec<_> = page.bad.iter().map(|bad| (&bad.id, bad.reason, &bad.message)).collect();
        assert!(bad.is_empty(), "{name}: {bad:?}");
        assert!(page.items.iter().all(|item| item.updated_at.is_some()), "{name}");
        assert_eq!(page.next_token.is_some(), next.is_some(), "{name}");
    }
    println!("{seen} recorded pages decoded");
}

#[test]
fn no_recorded_body_makes_a_decoder_panic() {
    let Some(folder) = folder() else { return };
    let json_paths = json!({"items": ["$.*[*]"], "id": ["$.id || $.DOI"]});
    let xml_paths = json!({"format": "XML", "items": ["*/*"], "id": ["."]});
    let mut count = 0;
    for source in std::fs::read_dir(&folder).unwrap().flatten().filter(|entry| entry.path().is_dir()) {
        for exchange in std::fs::read_dir(source.path()).unwrap().flatten() {
            let Some(body) = body_of(&source.path(), &exchange.file_name().to_string_lossy()) else { continue };
            let _ = decode(json_paths.clone(), None, body.clone());
            let _ = decode(xml_paths.clone(), None, body);
            count += 1;
        }
    }
    println!("{count} recorded bodies read");
}
