//! A plain, valid snapshot for tests to start from.

use std::collections::BTreeMap;

use crate::calendar::Align;
use crate::spec::snapshot::*;
use crate::time::{Span, Timestamp};

/// OFFSET paging over `/items`, JSON, half-open windows of an hour, no credentials.
pub fn snapshot() -> SpecSnapshot {
    SpecSnapshot {
        format: FORMAT_ALONE,
        provenance: "sample".into(),
        endpoint: "items".into(),
        entity: "items".into(),
        operation: Operation::Harvest,
        registry_version: 1,
        channel: "stable".into(),
        http: http(),
        auth: AuthSpec::None,
        spare_auth: Vec::new(),
        request: RequestSpec {
            method: Method::Get,
            path: "/items".into(),
            query: vec![
                ("from".into(), "${window.from | iso}".into()),
                ("to".into(), "${window.to | iso}".into()),
                ("offset".into(), "${page.offset}".into()),
                ("size".into(), "${page.size}".into()),
            ],
            headers: Vec::new(),
            body: None,
        },
        pagination: pagination(),
        window: window(),
        response: response(),
        detail: None,
        errors: Vec::new(),
        retry: RetrySpec {
            first: Span::from_millis(100),
            factor: 2.0,
            longest: Span::from_seconds(30),
            jitter: 0.2,
            attempts: 5,
            statuses: Vec::new(),
        },
        rate: RateSpec {
            windows: vec![RateWindow { requests: 10, per: Span::SECOND }],
            burst: 1,
            concurrency: 2,
            key: vec![RateKeyPart::Source],
            respect_headers: true,
            cost: 1,
            shared: None,
            unknown: false,
            adapt: AdaptSpec::default(),
            quota: None,
        },
        expr: ExprSpec::default(),
        namespace: NamespaceScope::Expr,
        shares: Vec::new(),
        blackbox: Blackbox::Sample,
        quarantine: QuarantineSpec { share_max: 0.2, records_max: 100 },
        priority: 3,
        fill_only: false,
        warnings: Vec::new(),
    }
}

fn http() -> HttpSpec {
    HttpSpec {
        base_url: "https://sample.invalid".into(),
        allow_http: false,
        allow_hosts: Vec::new(),
        connect_timeout: Span::from_seconds(10),
        read_timeout: Span::from_seconds(30),
        total_timeout: Span::from_seconds(120),
        redirects: 0,
        proxy: None,
        user_agent: "PatraIngest/0.1".into(),
        body_bytes_max: 64 << 20,
        ratio_max: 200,
    }
}

fn pagination() -> PaginationSpec {
    PaginationSpec {
        kind: PagingKind::Offset,
        size: 10,
        size_max: None,
        max_page: None,
        base: 1,
        initial: None,
        next_token: None,
        next_url: None,
        replayable: true,
        ttl: None,
        stop: Vec::new(),
        result_cap: None,
        max_per_slice: None,
        overlap: 1,
        backward: false,
        tail_probe: false,
    }
}

fn window() -> WindowSpec {
    WindowSpec {
        updated_since: true,
        key: "updated_at".into(),
        origin: Timestamp::from_seconds(1_767_225_600),
        boundary: Boundary { kind: BoundaryKind::HalfOpen, grain: Span::SECOND, zone: "UTC".into(), fractional: false },
        align: Align::Minute,
        min: Span::MINUTE,
        max: Span::DAY,
        slice: Span::HOUR,
        safety_lag: Span::from_seconds(600),
        lookback: Span::HOUR,
        out_of_range: OutOfRange::Clip,
        ordered: None,
        client_filter: false,
        as_of: false,
        second_key: None,
    }
}

fn response() -> ResponseSpec {
    ResponseSpec {
        format: Format::Json,
        namespaces: BTreeMap::new(),
        items: vec!["$.items[*]".into()],
        id: vec!["$.id".into()],
        updated_at: Some("$.updated_at".into()),
        time: TimeForm { kind: TimeKind::Iso, zone: "UTC".into() },
        version: None,
        deleted: None,
        total: Some("$.total".into()),
        total_tolerance: 0.0,
        has_more: None,
        hash_exclude: Vec::new(),
        fields: vec![FieldSpec { name: "title".into(), path: "$.title".into(), required: false }],
        merged_into: None,
        signals: None,
    }
}
