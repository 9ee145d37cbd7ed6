//! What was written down for each recorded exchange, and the exchange itself.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use patra_core::ports::HttpAnswer;
use serde::Deserialize;
use serde_json::Value;
use url::form_urlencoded;

/// One file per source: every folder of recordings is in one of the two lists.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// How the values were taken from the bodies.
    #[serde(rename = "about")]
    pub _about: String,
    pub exchanges: Vec<Exchange>,
    /// Fixture and reason.
    pub not_applicable: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Search,
    Detail,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exchange {
    pub fixture: String,
    pub phase: Phase,
    /// `page`, or the name of an error class.
    pub outcome: String,
    /// Where the recording has none, or the outcome is an error.
    pub status: Option<u16>,
    /// The page before this one: its next position is asked for.
    pub after: Option<String>,
    /// Token, offset, page number, ids, or query pairs of a next URL.
    #[serde(default)]
    pub asked: Value,
    pub size: Option<u32>,
    /// Where it was recorded, if not at the definition's own address.
    pub base_url: Option<String>,
    /// Element put around a recording that holds a part only.
    pub wrap: Option<String>,
    #[serde(default)]
    pub count: usize,
    pub total: Option<u64>,
    pub has_more: Option<bool>,
    pub next_token: Option<String>,
    pub next_url: Option<NextUrl>,
    #[serde(default)]
    pub deleted: usize,
    /// All records of a page; of more than 30 the first and the last three.
    #[serde(default)]
    pub records: Vec<Record>,
    /// SHA-256 over `id TAB micros LF` of all records of a long page.
    pub all: Option<String>,
}

/// The source's own link, and the names of our parameters it leaves out.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NextUrl {
    pub path: String,
    pub query: Vec<(String, String)>,
    pub added: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    pub id: String,
    /// As it stands in the body.
    pub written: Option<String>,
    pub micros: Option<i64>,
    #[serde(default)]
    pub deleted: bool,
}

/// Every shipped source with what was written down for it, and where its answers lie.
pub const SOURCES: [(&str, &str, Answers); 23] = [
    ("arxiv-api", include_str!("arxiv-api.json"), Answers::Folder("arxiv")),
    ("arxiv-oai", include_str!("arxiv-oai.json"), Answers::Folder("arxiv")),
    ("biorxiv", include_str!("biorxiv.json"), Answers::Samples),
    ("clinicaltrials", include_str!("clinicaltrials.json"), Answers::Samples),
    ("core", include_str!("core.json"), Answers::Samples),
    ("crossref", include_str!("crossref.json"), Answers::Folder("crossref")),
    ("datacite", include_str!("datacite.json"), Answers::Folder("datacite")),
    ("doaj", include_str!("doaj.json"), Answers::Folder("doaj")),
    ("doaj-oai", include_str!("doaj-oai.json"), Answers::Part("oai-pmh")),
    ("europepmc", include_str!("europepmc.json"), Answers::Folder("europepmc")),
    ("medrxiv", include_str!("medrxiv.json"), Answers::Samples),
    ("nih-reporter", include_str!("nih-reporter.json"), Answers::Samples),
    ("oai-pmh", include_str!("oai-pmh.json"), Answers::Folder("oai-pmh")),
    ("openalex", include_str!("openalex.json"), Answers::Folder("openalex")),
    ("openfda", include_str!("openfda.json"), Answers::Samples),
    ("orcid", include_str!("orcid.json"), Answers::Samples),
    ("pmc-oai", include_str!("pmc-oai.json"), Answers::Part("oai-pmh")),
    ("pubmed", include_str!("pubmed.json"), Answers::Folder("pubmed")),
    ("ror", include_str!("ror.json"), Answers::Samples),
    ("semanticscholar", include_str!("semanticscholar.json"), Answers::Folder("semanticscholar")),
    ("timefeed", include_str!("timefeed.json"), Answers::Samples),
    ("unpaywall", include_str!("unpaywall.json"), Answers::Folder("unpaywall")),
    ("zenodo-oai", include_str!("zenodo-oai.json"), Answers::Part("oai-pmh")),
];

/// Where the answers of a source lie.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Answers {
    /// All of a folder of recordings.
    Folder(&'static str),
    /// Some of a folder that another source reads whole.
    Part(&'static str),
    /// Made by hand, beside this file.
    Samples,
}

pub fn expected(source: &str) -> Expected {
    let (_, text, _) = SOURCES.iter().find(|(name, ..)| *name == source).unwrap();
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{source}.json: {error}"))
}

/// `PATRA_FIXTURES`, else beside the workspace; `None` says so, and there is nothing to test.
pub fn recordings() -> Option<PathBuf> {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures");
    let folder = std::env::var_os("PATRA_FIXTURES").map_or(beside, PathBuf::from);
    if folder.join("index.jsonl").is_file() {
        return Some(folder);
    }
    println!("skipped: there are no recorded answers at {}", folder.display());
    None
}

/// The folder of a source's answers; `None` where there are no recordings here.
pub fn answers(source: &str) -> Option<PathBuf> {
    let (.., answers) = SOURCES.iter().find(|(name, ..)| *name == source).unwrap();
    match answers {
        Answers::Folder(name) | Answers::Part(name) => recordings().map(|folder| folder.join(name)),
        Answers::Samples => {
            Some(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/source/recorded/samples").join(source))
        }
    }
}

/// A recorded exchange: the request's URL, where it is known, and the answer.
pub struct Recording {
    pub url: Option<url::Url>,
    pub answer: HttpAnswer,
}

impl Recording {
    pub fn read(folder: &Path, exchange: &Exchange) -> Recording {
        let json = |name: &str| {
            let text = std::fs::read_to_string(folder.join(name)).ok()?;
            serde_json::from_str::<Value>(&text).ok()
        };
        let request = json("request.json").unwrap_or_default();
        let response = json("response.headers.json").unwrap_or_default();
        let recorded = response["status"].as_u64().and_then(|status| u16::try_from(status).ok());
        let status = exchange.status.or(recorded).unwrap_or(200);
        assert!(recorded.is_none_or(|recorded| recorded == status), "{}: the status", exchange.fixture);
        Recording {
            url: request["url"].as_str().map(|url| url::Url::parse(url).unwrap()),
            answer: HttpAnswer { status, headers: headers(&response["headers"]), body: body(folder, exchange) },
        }
    }

    /// A parameter of the recorded request, decoded and as written.
    pub fn parameter(&self, name: &str) -> Option<(String, String)> {
        let pairs = self.url.as_ref()?.query()?.split('&');
        pairs.into_iter().find_map(|pair| {
            let (key, decoded) = form_urlencoded::parse(pair.as_bytes()).next()?;
            (key == name).then(|| (decoded.into_owned(), pair.split_once('=').unwrap_or_default().1.to_owned()))
        })
    }
}

fn headers(recorded: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let Some(map) = recorded.as_object() else { return Vec::new() };
    map.iter().map(|(name, value)| (name.to_lowercase(), text(value))).collect()
}

fn body(folder: &Path, exchange: &Exchange) -> Bytes {
    let inside = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", exchange.fixture));
    let body = inside.flatten().find(|entry| entry.file_name().to_string_lossy().starts_with("body.")).unwrap();
    let body = std::fs::read(body.path()).unwrap();
    match &exchange.wrap {
        None => body.into(),
        Some(element) => format!("<{element}>{}</{element}>", String::from_utf8(body).unwrap()).into(),
    }
}
