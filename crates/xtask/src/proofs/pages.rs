//! What the request log says about a kill: pages the source had to serve again because of it.

use std::collections::{HashMap, HashSet};

use patra_checker::ServedRow;

/// One kill, and what it hit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kill {
    /// On the clock of the request log.
    pub at_us: i64,
    /// Tasks that were RUNNING at that moment.
    pub running: u64,
}

/// Pages asked for after a kill that had been answered in full before it; one number per kill. A page is charged to
/// the first kill before its second reading, so nothing is counted twice.
pub fn fetched_again(served: &[ServedRow], kills: &[Kill]) -> Vec<u64> {
    let mut again = vec![0; kills.len()];
    let mut first: HashMap<Page, i64> = HashMap::new();
    let mut charged: HashSet<(usize, Page)> = HashSet::new();
    for row in served.iter().filter(|row| row.status == 200 && row.fault.is_none()) {
        let page = Page::of(row);
        let Some(before) = first.insert(page.clone(), row.at_us) else { continue };
        let between = kills.iter().position(|kill| before <= kill.at_us && kill.at_us < row.at_us);
        if let Some(kill) = between
            && charged.insert((kill, page))
        {
            again[kill] += 1;
        }
    }
    again
}

/// A request as far as it names a page. Ids of a detail request travel in its body, which the log does not keep.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Page {
    path_query: String,
    ids: Vec<String>,
}

impl Page {
    fn of(row: &ServedRow) -> Page {
        let posted = row.method != "GET";
        let ids = row.items.iter().filter(|_| posted).map(|(id, _)| id.clone()).collect();
        Page { path_query: row.path_query.clone(), ids }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(at_us: i64, method: &str, path: &str, ids: &[&str]) -> ServedRow {
        ServedRow {
            source: "s".into(),
            at_us,
            method: method.into(),
            path_query: path.into(),
            status: 200,
            fault: None,
            response_sha256: String::new(),
            items: ids.iter().map(|id| ((*id).to_owned(), 1)).collect(),
            kind: patra_checker::Kind::Search,
            token: None,
        }
    }

    #[test]
    fn a_page_served_on_both_sides_of_a_kill_is_charged_to_it_once() {
        let kills = [Kill { at_us: 10, running: 1 }, Kill { at_us: 20, running: 1 }];
        let served = [
            row(1, "GET", "/a", &[]),
            row(9, "GET", "/b", &[]),
            row(11, "GET", "/b", &[]),
            row(12, "GET", "/b", &[]),
            row(13, "GET", "/c", &[]),
            row(21, "GET", "/c", &[]),
            row(22, "GET", "/d", &[]),
        ];
        assert_eq!(fetched_again(&served, &kills), [1, 1]);
    }

    #[test]
    fn posted_requests_are_told_apart_by_their_ids() {
        let kills = [Kill { at_us: 10, running: 1 }];
        let served = [row(1, "POST", "/f", &["x"]), row(11, "POST", "/f", &["y"]), row(12, "POST", "/f", &["x"])];
        assert_eq!(fetched_again(&served, &kills), [1]);
    }
}
