//! Pages: kind of paging, sizes, what ends them.

use super::Checker;
use crate::spec::snapshot::*;

impl Checker<'_> {
    pub(super) fn pagination(&mut self) {
        let pagination = &self.spec.pagination;
        let by_answer = matches!(pagination.kind, PagingKind::Token | PagingKind::Url);
        if by_answer && pagination.next_token.is_none() && pagination.next_url.is_none() {
            let (kind, what) = if pagination.kind == PagingKind::Token { ("token", "token") } else { ("url", "URL") };
            let message = format!("paging by {kind} needs `next`, the path of the next {what}");
            self.error("next_missing", "pagination.type", message, "add `pagination.next`");
        }
        let only_by_answer = ["next_token", "next_url", "initial", "ttl"];
        let only_by_count = ["base", "overlap", "backward"];
        let foreign: &[&str] = match pagination.kind {
            PagingKind::Token | PagingKind::Url => &only_by_count,
            PagingKind::Offset => &["next_token", "next_url", "initial", "ttl", "base", "backward"],
            PagingKind::Page => &["next_token", "next_url", "initial", "ttl", "overlap"],
            PagingKind::Time => {
                &["next_token", "next_url", "initial", "ttl", "base", "overlap", "backward", "tail_probe"]
            }
        };
        for key in foreign {
            let path = format!("pagination.{key}");
            let set = self.context.merged.leaves.get(&path).is_some_and(|leaf| !leaf.path.is_empty());
            if set {
                let key = if only_by_answer[..2].contains(key) { "next" } else { key };
                let kind = format!("{:?}", pagination.kind).to_lowercase();
                let message = format!("`{key}` does not go with paging by {kind}");
                self.error("paging_exclusive", &path, message, "keep either the type or the key");
            }
        }
        let declared = self.context.merged.leaves.get("pagination.base").is_some_and(|leaf| !leaf.path.is_empty());
        if pagination.kind == PagingKind::Page && !declared {
            let message = "paging by page needs `base`, the number of the first page";
            self.error("page_base_missing", "pagination.type", message, "add `base: 0` or `base: 1`");
        }
        if pagination.backward && self.spec.response.total.is_none() {
            let message =
                "the last page cannot be found: pages are read backward, and nothing says how many records there are";
            self.error("backward_total", "pagination.backward", message, "add `response.total`, or remove `backward`");
        }
        let unasked = !pagination.replayable || pagination.backward;
        if pagination.tail_probe && unasked {
            let message = "the last page cannot be asked for again: pages are read backward or only once";
            self.error("tail_probe", "pagination.tail_probe", message, "remove `tail_probe`");
        }
        self.page_sizes();
    }

    fn page_sizes(&mut self) {
        let pagination = &self.spec.pagination;
        if let Some(cap) = pagination.size_max.filter(|cap| pagination.size > *cap) {
            let message = format!("a page of {} is more than the {cap} the source gives", pagination.size);
            self.error("size_over_max", "pagination.size", message, "lower `size`");
        }
        if pagination.overlap >= pagination.size {
            let message =
                format!("an overlap of {} leaves nothing of a page of {}", pagination.overlap, pagination.size);
            self.error("overlap", "pagination.overlap", message, "lower `overlap`");
        }
        if let (Some(cap), Some(most)) = (pagination.result_cap, pagination.max_per_slice)
            && most > cap
        {
            let message = format!("slices of up to {most} records exceed the {cap} the source serves");
            self.error("slice_over_cap", "pagination.max_per_slice", message, "lower `max_per_slice`");
        }
    }

    pub(super) fn stop_rules(&mut self) {
        let pagination = &self.spec.pagination;
        for rule in &pagination.stop {
            let (fits, needs) = match rule {
                StopRule::HasMore => (self.spec.response.has_more.is_some(), "`response.has_more`"),
                StopRule::NoToken | StopRule::EchoedToken => (pagination.kind == PagingKind::Token, "paging by token"),
                StopRule::NoUrl => (pagination.kind == PagingKind::Url, "paging by url"),
                StopRule::CountReached => (self.spec.response.total.is_some(), "`response.total`"),
                StopRule::EmptyPage | StopRule::ShortPage => (true, ""),
            };
            if !fits {
                let message = format!("`{}` cannot end the pages without {needs}", stop_name(*rule));
                self.error("stop_rule", "pagination.stop", message, "remove the rule or add what it needs");
            }
        }
    }
}

fn stop_name(rule: StopRule) -> String {
    serde_json::json!(rule).as_str().unwrap_or_default().to_owned()
}
