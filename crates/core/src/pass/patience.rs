//! Pages that a source cannot finish are asked for in smaller ones.

use crate::page::{PageAsk, PageStep};
use crate::spec::errors::FetchError;
use crate::spec::snapshot::{PaginationSpec, PagingKind};

/// A page is made smaller by this much at a time, and never smaller than this part of what is declared.
const SHRINK_BY: u32 = 4;
const SHRUNK_LEAST: u32 = 64;

/// A gateway takes its time to give up: the same page is not asked for more often than this while a smaller one can be.
const GIVEN_UP_MAX: u32 = 2;

/// A request that was given up so often is not worth another try as it is.
pub fn asks_too_much(ask: &PageAsk, error: &FetchError, requests: u32) -> bool {
    requests >= GIVEN_UP_MAX && may_be_too_large(ask, error)
}

/// A smaller page might be answered.
pub fn may_be_too_large(ask: &PageAsk, error: &FetchError) -> bool {
    let PageStep::Search { size, .. } = &ask.step else { return false };
    smaller_page(&ask.spec.pagination, error, *size).is_some()
}

/// The size to ask with after a gateway gave up on a page of `size`. Page numbers stand for other records when the size
/// changes, and a next URL carries its own, so these keep theirs.
pub fn smaller_page(paging: &PaginationSpec, error: &FetchError, size: u32) -> Option<u32> {
    let given_up = matches!(error, FetchError::Status { status: 504, .. } | FetchError::Rule { status: 504, .. });
    let free = matches!(paging.kind, PagingKind::Offset | PagingKind::Token | PagingKind::Time);
    let least = (paging.size / SHRUNK_LEAST).max(1);
    let smaller = (size / SHRINK_BY).max(least);
    (given_up && free && smaller < size).then_some(smaller)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::sample;

    fn status(status: u16) -> FetchError {
        FetchError::Status { status, message: String::new(), retry_after: None }
    }

    #[test]
    fn a_page_shrinks_when_a_gateway_gives_up_and_where_its_size_is_free() {
        let mut paging = sample::snapshot().pagination;
        paging.size = 1_000;
        for (kind, error, size, want) in [
            (PagingKind::Token, status(504), 1_000, Some(250)),
            (PagingKind::Offset, status(504), 250, Some(62)),
            (PagingKind::Token, status(504), 62, Some(15)),
            (PagingKind::Token, status(504), 15, None),
            (PagingKind::Page, status(504), 1_000, None),
            (PagingKind::Url, status(504), 1_000, None),
            (PagingKind::Token, status(503), 1_000, None),
            (PagingKind::Token, FetchError::Lost { message: String::new() }, 1_000, None),
        ] {
            paging.kind = kind;
            assert_eq!(smaller_page(&paging, &error, size), want, "{kind:?} {error} {size}");
        }
        paging.size = 1;
        paging.kind = PagingKind::Token;
        assert_eq!(smaller_page(&paging, &status(504), 1), None);
    }
}
