//! `--metrics`: every figure of chapter 14.4 is there and moves, and only this machine may look.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Desk, Sim, days_ago, shipped, signal};

struct Serving {
    child: Child,
    address: String,
}

impl Serving {
    fn start(desk: &Desk, args: &[&str]) -> Serving {
        let mut command = desk.command(&[args, &["--metrics", "127.0.0.1:0"]].concat());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let said = lines.find_map(|line| line.unwrap().strip_prefix("metrics at http://").map(str::to_owned)).unwrap();
        std::thread::spawn(move || lines.count());
        Serving { child, address: said.strip_suffix("/metrics").unwrap().to_owned() }
    }

    fn get(&self, path: &str, host: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Asks until a line that begins so has a value that is wanted.
    fn until(&self, begins: &str, wanted: impl Fn(f64) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let answer = self.get("/metrics", "localhost");
            let value = |line: &str| line.rsplit_once(' ').and_then(|(_, value)| value.parse::<f64>().ok());
            let lines = || answer.lines().filter(|line| line.starts_with(begins));
            if lines().filter_map(value).any(&wanted) {
                return answer;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "{begins} in\n{answer}");
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[test]
fn every_figure_is_there_and_moves() {
    let desk = Desk::new();
    let sim = Sim::start(&desk, &["--records", "400", "--source", "datacite", "--faults", "storm"]);
    desk.patra(&["init"]).ended(0);
    // More than the simulator takes, so that it refuses some.
    let quick = "\nrate:\n  quota: { per_day: 100000 }\n  per_second: 20\n";
    desk.write("datacite.yaml", &shipped("datacite").replacen("\nrate:\n  per_second: 2\n", quick, 1));
    desk.patra(&["registry", "apply", "datacite.yaml"]).ended(0);
    let url = format!("http://{}/datacite", sim.address);
    let since = days_ago(12);
    let plan = ["--source", "datacite", "--base-url", &url, "--allow-host", &sim.address, "--since", &since];
    let contact = ["--contact", "tester@example.org", "--every", "PT1S"];
    let at = "{source=\"datacite\",endpoint=\"dois\",op=\"HARVEST\"";
    let planning = Serving::start(&desk, &[&["planner"][..], &plan, &contact].concat());
    planning.until(&format!("patra_ingest_tasks_queued{at}"), |count| count >= 1.0);
    drop(planning);
    let mut serving = Serving::start(&desk, &[&["serve"][..], &plan, &contact].concat());
    serving.until(&format!("patra_ingest_batches_total{at}"), |count| count >= 3.0);
    serving.until("patra_ingest_cursor_advance_events_total{direction=\"FORWARD\"}", |count| count >= 1.0);
    serving.until(&format!("patra_ingest_retries_total{at}"), |count| count >= 1.0);
    serving.until(&format!("patra_ingest_429_total{at}"), |count| count >= 1.0);
    let told = serving.until(&format!("patra_ingest_cursor_lag_seconds{at},ns=\"EXPR\"}}"), |lag| lag > 0.0);
    for wanted in [
        "patra_ingest_database_up 1",
        "patra_ingest_alarms_open 0",
        &format!("patra_ingest_items_total{at},action=\"insert\"}}"),
        &format!("patra_ingest_items_total{at},action=\"update\"}}"),
        &format!("patra_ingest_items_total{at},action=\"skip\"}}"),
        &format!("patra_ingest_batch_latency_ms_bucket{{le=\"5000.0\",{}", &at[1..]),
        &format!("patra_ingest_http_latency_ms_count{at}}}"),
        "patra_ingest_errors_total{level=\"L1\",source=\"datacite\"",
        &format!("patra_ingest_executor_concurrency{at}}}"),
        &format!("patra_ingest_qps_effective{at}}}"),
        "patra_ingest_budget_limit{source=\"datacite\",window=\"DAY\"} ",
        &format!("patra_ingest_cursor_expected_lag_seconds{at},ns=\"EXPR\"}}"),
        "patra_ingest_budget_remaining{source=\"datacite\",window=\"DAY\"} ",
    ] {
        assert!(told.contains(wanted), "{wanted} in\n{told}");
    }
    assert!(told.contains("application/openmetrics-text") && told.trim_end().ends_with("# EOF"), "{told}");
    assert!(serving.get("/healthz", "localhost").ends_with("ok\n"));
    assert!(serving.get("/metrics", "evil.example").starts_with("HTTP/1.1 403"), "a name that was rebound to loopback");
    signal(&serving.child, "TERM");
    assert!(serving.child.wait().unwrap().success());
}

#[test]
fn an_address_that_others_reach_is_refused() {
    let desk = Desk::new();
    desk.patra(&["init"]).ended(0);
    desk.patra(&["executor", "--metrics", "0.0.0.0:0"]).ended(2).complains(&["this machine alone", "127.0.0.1:PORT"]);
    desk.patra(&["executor", "--metrics", "nowhere"]).ended(2).complains(&["--metrics"]);
}
