//! A certificate as one page for a browser: verdict, a picture of the coverage, the account of every window. It holds no
//! script, asks for nothing, and every text of it is escaped.

use patra_core::proof::{Certificate, Stretch, Verdict};
use patra_core::window::Window;
use serde_json::Value;

use crate::commands::certify::{ACCOUNT, account, reading};
use crate::table::text_of;

/// Width of the picture in its own units.
const WIDTH: f64 = 1_000.0;
/// No hole is drawn narrower than this.
const NARROWEST: f64 = 2.0;
const STYLE: &str = "
:root { color-scheme: light dark; --line: #8886; --good: #2e7d32; --bad: #c62828; --waived: #ef8f00; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } .verdict { font-size: 1.8rem; font-weight: 700; }
.complete { color: var(--good); } .incomplete { color: var(--bad); }
svg { width: 100%; height: 3rem; border: 1px solid var(--line); }
.proven { fill: var(--good); } .waived { fill: var(--waived); } .hole { fill: var(--bad); }
.ends { display: flex; justify-content: space-between; font-variant-numeric: tabular-nums; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; margin: 1rem 0; }
th, td { border-bottom: 1px solid var(--line); padding: .25rem .6rem; text-align: right; white-space: nowrap; }
th:first-child, td:first-child, td.text { text-align: left; } td.text { white-space: normal; }
code { overflow-wrap: anywhere; }";

pub fn page(certificate: &Certificate) -> String {
    let subject = &certificate.subject;
    let name = format!("{}/{}", subject.source, subject.endpoint);
    let query = subject.query.as_deref().unwrap_or("everything");
    let class = if certificate.judgement.verdict == Verdict::Complete { "complete" } else { "incomplete" };
    let within = match certificate.judgement.within {
        0 => String::new(),
        within => format!(" within ±{within} records"),
    };
    let head = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}: {1}</title>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <style>{STYLE}</style></head>\n<body><h1>{0}: {2}</h1>\n<p class=\"verdict {class}\">{1}{within}</p>\n",
        escaped(&name),
        certificate.judgement.verdict.word(),
        escaped(query),
    );
    let parts = [head, picture(certificate), reasons(certificate), accounts(certificate), basis(certificate)];
    parts.concat() + "</body></html>\n"
}

fn picture(certificate: &Certificate) -> String {
    let window = certificate.subject.window;
    let bars: String = certificate.judgement.coverage.iter().map(|stretch| stripe(stretch, window)).collect();
    format!(
        "<svg viewBox=\"0 0 {WIDTH} 30\" preserveAspectRatio=\"none\" role=\"img\" \
         aria-label=\"coverage of {}\">{bars}</svg>\n<div class=\"ends\"><span>{}</span><span>{}</span></div>\n",
        escaped(&window.to_string()),
        text_of(&window.from().to_string().into()),
        text_of(&window.to().to_string().into()),
    )
}

fn stripe(stretch: &Stretch, whole: Window) -> String {
    let scale = WIDTH / whole.width().micros().max(1) as f64;
    let left = stretch.window.from().since(whole.from()).micros() as f64 * scale;
    let width = stretch.window.width().micros() as f64 * scale;
    let (class, width) = match stretch.status.as_str() {
        "PROVEN" => ("proven", width),
        "WAIVED" => ("waived", width.max(NARROWEST)),
        _ => ("hole", width.max(NARROWEST)),
    };
    let title = format!("{} {} {}", stretch.window, stretch.status, stretch.reason);
    format!(
        "<rect class=\"{class}\" x=\"{left:.3}\" y=\"0\" width=\"{width:.3}\" height=\"30\"><title>{}</title></rect>",
        escaped(title.trim_end())
    )
}

fn reasons(certificate: &Certificate) -> String {
    let reasons = &certificate.judgement.reasons;
    if reasons.is_empty() {
        return "<p>Every moment of the window was read whole, after it had settled, and every record is accounted \
                for.</p>\n"
            .into();
    }
    let items: String = reasons.iter().map(|reason| format!("<li>{}</li>", escaped(reason))).collect();
    format!("<h2>What is not complete</h2>\n<ul>{items}</ul>\n")
}

fn accounts(certificate: &Certificate) -> String {
    let mut columns = vec!["from", "to"];
    columns.extend(ACCOUNT);
    let header: String = columns.iter().map(|name| format!("<th>{}</th>", name.replace('_', " "))).collect();
    let mut all = account(certificate);
    all["from"] = "all windows".into();
    all["to"] = "".into();
    let readings = certificate.readings();
    let rows: String = readings.iter().map(|leaf| row(&reading(leaf), &columns)).collect();
    format!(
        "<h2>Accounts</h2>\n<div class=\"scroll\"><table><thead><tr>{header}</tr>{}</thead><tbody>{rows}</tbody></table></div>\n",
        row(&all, &columns)
    )
}

fn row(values: &Value, columns: &[&str]) -> String {
    let cells: String = columns.iter().map(|name| format!("<td>{}</td>", escaped(&text_of(&values[*name])))).collect();
    format!("<tr>{cells}</tr>")
}

fn basis(certificate: &Certificate) -> String {
    let watermark = certificate.watermark.map_or_else(|| "none".to_owned(), |at| at.to_string());
    format!(
        "<h2>What it rests on</h2>\n<p>Made at {} from {} slices; watermark {}. Digest of the ledger rows:</p>\n\
         <p><code>{}</code></p>\n<p>Check it with <code>patra certify --verify FILE</code> and the certificate as JSON.</p>\n",
        certificate.made_at,
        certificate.basis.digests.slices.len(),
        escaped(&watermark),
        certificate.basis.digest,
    )
}

fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}
