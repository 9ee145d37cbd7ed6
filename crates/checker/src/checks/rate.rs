//! C6: in any span of the declared length the source got at most the declared number of requests, counted where it
//! hurts: at the source, with 50 ms for the way there.

use serde_json::json;

use crate::case::Case;
use crate::time::shown;
use crate::verdict::Findings;

const CHECK: &str = "C6";
const SLACK_US: i64 = 50_000;

pub fn check(case: &Case<'_>, findings: &mut Findings) {
    for (limit, per_us) in &case.rules.rates {
        let count = *limit as usize;
        // The request that is `count` places later must lie outside the span that begins with this one.
        let pairs = case.served.iter().zip(case.served.iter().skip(count));
        for (first, over) in pairs.filter(|(first, over)| over.at_us - first.at_us < per_us - SLACK_US) {
            let message = format!("more than {limit} requests within {per_us} us from {}", shown(first.at_us));
            findings.error(CHECK, case.source(), message, json!({"from": first.at_us, "over": over.at_us}));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{Planted, plant};

    fn burst(input: &mut crate::CheckInput, gap_us: i64) {
        let first = input.served[7].clone();
        for number in 1..=3 {
            input.served.push(crate::ServedRow { at_us: first.at_us + number * gap_us, ..first.clone() });
        }
    }

    #[tokio::test]
    async fn one_request_too_many_is_found() {
        plant(
            "C6",
            &[
                Planted::input("full bucket after a restart", |input| burst(input, 10_000), "more than 3 requests"),
                Planted::input(
                    "just inside the slack is too early",
                    |input| burst(input, 316_000),
                    "more than 3 requests",
                ),
            ],
        )
        .await;
    }

    #[tokio::test]
    async fn requests_at_the_limit_are_fine() {
        let mut input = crate::fixture::good().await;
        burst(&mut input, 317_000);
        let verdict = crate::check(&input).await;
        assert_eq!(verdict.errors("C6").count(), 0, "{:#?}", verdict.findings);
    }
}
