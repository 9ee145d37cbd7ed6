//! OAI-PMH on the wire: the envelope around every answer, and one record in Dublin Core or as a tombstone.

use crate::content::{Work, xml_text};
use crate::moment::iso_seconds;
use crate::provider::origin;
use crate::request::SimRequest;
use crate::truth::Face;

/// One `<record>` element, a bare header when deleted.
pub(crate) fn render(seed: u64, face: &Face<'_>) -> String {
    let status = if face.deleted { " status=\"deleted\"" } else { "" };
    let header = format!(
        "<header{status}><identifier>{}</identifier><datestamp>{}</datestamp><setSpec>sim</setSpec></header>",
        xml_text(face.id),
        iso_seconds(face.updated_at)
    );
    if face.deleted {
        return format!("<record>{header}</record>");
    }
    let work = Work::make(seed, face.id, face.content);
    let authors: String = work
        .authors
        .iter()
        .map(|author| format!("<dc:creator>{}, {}</dc:creator>", xml_text(&author.family), xml_text(&author.given)))
        .collect();
    let subjects: String = work.keywords.iter().map(|word| format!("<dc:subject>{word}</dc:subject>")).collect();
    format!(
        "<record>{header}<metadata><oai_dc:dc xmlns:oai_dc=\"http://www.openarchives.org/OAI/2.0/oai_dc/\" xmlns:dc=\"http://purl.org/dc/elements/1.1/\" \
         xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:schemaLocation=\"http://www.openarchives.org/OAI/2.0/oai_dc/ http://www.openarchives.org/OAI/2.0/oai_dc.xsd\">\
         <dc:title>{}</dc:title>{authors}{subjects}<dc:description>{}</dc:description><dc:publisher>{}</dc:publisher><dc:date>{}-{:02}-{:02}</dc:date>\
         <dc:identifier>{}</dc:identifier><dc:type>Text</dc:type><dc:language>en</dc:language><dc:rights/></oai_dc:dc></metadata></record>",
        xml_text(&work.plain_title()),
        xml_text(&work.summary),
        xml_text(&work.publisher),
        work.year,
        work.month,
        work.day,
        xml_text(&format!("https://archive.example.org/{}", face.id)),
    )
}

pub(crate) fn envelope(request: &SimRequest, now_us: i64, inner: &str) -> String {
    let arguments: String =
        request.query.iter().map(|(name, value)| format!(" {}=\"{}\"", xml_text(name), xml_text(value))).collect();
    let arguments = if inner.starts_with("<error") { String::new() } else { arguments };
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><OAI-PMH xmlns=\"http://www.openarchives.org/OAI/2.0/\" xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" \
         xsi:schemaLocation=\"http://www.openarchives.org/OAI/2.0/ http://www.openarchives.org/OAI/2.0/OAI-PMH.xsd\"><responseDate>{}</responseDate>\
         <request{arguments}>{}/oai-pmh/oai</request>{inner}</OAI-PMH>",
        iso_seconds(now_us),
        origin(request)
    )
}

pub(crate) fn identify(request: &SimRequest) -> String {
    format!(
        "<Identify><repositoryName>Simulated archive</repositoryName><baseURL>{}/oai-pmh/oai</baseURL><protocolVersion>2.0</protocolVersion>\
         <adminEmail>admin@archive.example.org</adminEmail><earliestDatestamp>1990-01-01T00:00:00Z</earliestDatestamp>\
         <deletedRecord>persistent</deletedRecord><granularity>YYYY-MM-DDThh:mm:ssZ</granularity></Identify>",
        origin(request)
    )
}
