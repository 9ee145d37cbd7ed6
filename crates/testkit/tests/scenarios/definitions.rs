//! Definitions that meet a situation: the shipped ones with a few words changed, often to what a careless author would
//! have written.

use patra_sim::Source;
use patra_testkit::lab::definition_of;

/// Which definition reads the source.
#[derive(Clone, Copy)]
pub enum Definition {
    Shipped,
    /// The shipped one with these texts replaced; each must be there.
    Changed(&'static [&'static [(&'static str, &'static str)]]),
}

impl Definition {
    /// The text to publish, if it is not the one published already.
    pub fn text(self, source: Source) -> Result<Option<String>, String> {
        let Definition::Changed(groups) = self else { return Ok(None) };
        let mut text = definition_of(source).1.to_owned();
        for (from, to) in groups.iter().copied().flatten() {
            if !text.contains(from) {
                return Err(format!("the shipped definition of {} has no `{from}`", source.name()));
            }
            text = text.replace(from, to);
        }
        Ok(Some(text))
    }
}

/// arXiv: whole days.
pub const ARXIV: &[(&str, &str)] = &[
    ("%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d"),
    ("origin: 1990-01-01T00:00:00Z", "origin: 2005-09-16T00:00:00Z"),
    ("boundary: { kind: inclusive, grain: PT1S, zone: UTC }", "boundary: { kind: day, grain: P1D, zone: UTC }"),
    ("align: minute", "align: day"),
    ("min: PT1M", "min: P1D"),
    ("safety_lag: PT2H", "safety_lag: P1D"),
];

/// arXiv: a day of too many pages is cut by sets.
pub const ARXIV_SETS: &[(&str, &str)] = &[
    ("lookback: P1D", "lookback: P1D\n      second_key: { type: hash_bucket, buckets: 4 }"),
    ("ttl: PT10M", "max_page: 6\n      ttl: PT10M"),
    (
        "set: \"${params.set if page.token is none else none}\"",
        "set: \"${none if page.token is defined else 'cs' if part.bucket == 0 else 'math' if part.bucket == 1 \
         else 'physics:astro-ph' if part.bucket == 2 else 'physics:hep-th' if part.bucket == 3 else none}\"",
    ),
];

/// A day that is not known yet.
pub const ARXIV_FUTURE: &[(&str, &str)] =
    &[("until: \"${window.last | date('%Y-%m-%d') if page.token is none else none}\"", "until: \"2099-01-01\"")];

/// The token is sent beside the beginning of the window.
pub const ARXIV_EXTRA: &[(&str, &str)] = &[(
    "from: \"${window.from | date('%Y-%m-%d') if page.token is none else none}\"",
    "from: \"${window.from | date('%Y-%m-%d')}\"",
)];

/// DOAJ over OAI-PMH: everything is a month late.
pub const DOAJ_OAI: &[(&str, &str)] = &[("safety_lag: PT2H", "safety_lag: P31D")];

/// PMC: identifiers first, then each article in its own format.
pub const PMC_TWO_PHASE: &[(&str, &str)] = &[
    ("verb: ListRecords", "verb: ListIdentifiers"),
    ("default('oai_dc')", "default('pmc')"),
    ("next: ListRecords/resumptionToken", "next: ListIdentifiers/resumptionToken"),
    (
        r#"      items: ListRecords/record
      id: header/identifier
      updated_at: header/datestamp
      deleted: "header[@status='deleted']/@status"
      shape: bibliographic
      evidence: recorded
"#,
        r#"      items: ListIdentifiers/header
      id: identifier
      updated_at: datestamp
    detail: { endpoint: article, id_batch_size: 1 }
"#,
    ),
    (
        "    fields:\n      ids.doi:",
        r#"
  article:
    role: detail
    entity: records
    request:
      path: "/${params.path | default('oai')}"
      query:
        verb: GetRecord
        metadataPrefix: pmc
        identifier: "${ids | join(',')}"
    response:
      format: xml
      namespaces:
        dc: http://purl.org/dc/elements/1.1/
        oai_dc: http://www.openarchives.org/OAI/2.0/oai_dc/
      items: GetRecord/record
      id: header/identifier
      updated_at: header/datestamp
      deleted: "header[@status='deleted']/@status"
      shape: bibliographic
      evidence: recorded
    errors:
      - { when: { path: "error[@code='cannotDisseminateFormat']/@code || error[@code='idDoesNotExist']/@code" }, then: skip }
    fields:
      ids.doi:"#,
    ),
];

/// DOAJ without what is known about its cap.
pub const DOAJ_UNCAPPED: &[(&str, &str)] = &[("      result_cap: 1000\n      max_per_slice: 900\n", "")];

/// DOAJ by its `next` links.
pub const DOAJ_LINKS: &[(&str, &str)] = &[
    ("type: page\n      base: 1\n", "type: next_url\n      next: \"$.next\"\n"),
    (
        "      backward: true\n      result_cap: 1000\n      max_per_slice: 900\n      stop: [count_reached, empty_page]",
        "      stop: [no_url, empty_page]",
    ),
];

/// DOAJ with an open end.
pub const DOAJ_OPEN: &[(&str, &str)] = &[("' TO ', window.to | date('%Y-%m-%dT%H:%M:%SZ'), '}')}", "' TO *]')}")];

/// DOAJ with a query that is none.
pub const DOAJ_BROKEN: &[(&str, &str)] = &[("'last_updated:['", "'last_updated:('")];

/// DataCite by page numbers, and nothing known about their cap.
pub const DATACITE_PAGES: &[(&str, &str)] = &[
    ("page[cursor]: \"${page.token}\"", "page[number]: \"${page.number}\""),
    (
        "type: next_url\n      size: 1000\n      size_max: 1000\n      initial: \"1\"\n      next: \"$.links.next\"\n      stop: [no_url, empty_page]",
        "type: page\n      base: 1\n      size: 20\n      stop: [count_reached, empty_page]",
    ),
];

/// DataCite with a query that is none.
pub const DATACITE_BROKEN: &[(&str, &str)] = &[("'updated:['", "'updated:('")];

/// DataCite: the list first, then each DOI.
pub const DATACITE_TWO_PHASE: &[(&str, &str)] = &[(
    r#"      shape: bibliographic
      evidence: recorded
      hash_exclude: ["$.attributes.viewCount", "$.attributes.downloadCount", "$.attributes.citationCount"]
    fields:
"#,
    r#"    detail: { endpoint: doi, id_batch_size: 1 }

  doi:
    role: detail
    entity: dois
    request:
      path: "/dois/${ids | join(',')}"
    response:
      items: "$.data"
      id: "$.id"
      updated_at: "$.attributes.updated"
      shape: bibliographic
      evidence: recorded
    errors:
      - { when: { status: 404 }, then: skip }
    fields:
"#,
)];

/// openFDA without what is known about its reach.
pub const OPENFDA_UNCAPPED: &[(&str, &str)] = &[("      result_cap: 26000\n      max_per_slice: 25000\n", "")];

/// openFDA by its `Link` headers.
pub const OPENFDA_LINKS: &[(&str, &str)] = &[
    ("        skip: \"${page.offset}\"\n", ""),
    (
        "type: offset\n      size: 1000\n      size_max: 1000\n      result_cap: 26000\n      max_per_slice: 25000\n      stop: [count_reached, empty_page]",
        "type: next_url\n      next: link_header\n      size: 1\n      stop: [no_url, empty_page]",
    ),
];

/// openFDA with a search that is none.
pub const OPENFDA_BROKEN: &[(&str, &str)] = &[("'receiptdate:['", "'receiptdate:('")];

/// PubMed with ids that are none.
pub const PUBMED_BROKEN: &[(&str, &str)] = &[("id: \"${ids | join(',')}\"", "id: \"pmid${ids | join(',pmid')}\"")];

/// PubMed by publication dates.
pub const PUBMED_PUBLISHED: &[(&str, &str)] = &[("datetype: mdat", "datetype: pdat")];

/// PubMed by a result set that is kept under a name.
pub const PUBMED_HISTORY: &[(&str, &str)] = &[
    ("        datetype: mdat\n", "        datetype: mdat\n        usehistory: y\n        WebEnv: \"${page.token}\"\n"),
    (
        "type: offset\n      size: 9999\n      size_max: 9999\n      overlap: 0\n",
        "type: cursor\n      size: 20\n      next: \"$.esearchresult.webenv\"\n      replayable: false\n",
    ),
    (
        "      - { when: { path: \"$.esearchresult.ERROR\" }, then: retry }",
        "      - { when: { status: 200, body: \"Unable to obtain query\" }, then: cursor_expired }\n      - { when: { path: \"$.esearchresult.ERROR\" }, then: retry }",
    ),
];
