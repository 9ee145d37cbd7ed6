-- The ledger. Times are ISO-8601 text with six digits and Z; hashes are 32-byte blobs in hot tables and hex text
-- elsewhere; JSON is never looked into by SQL. A CHECK repeats the states of each machine.

CREATE TABLE ing_schedule_instance (
    id INTEGER PRIMARY KEY,
    scheduler_code TEXT NOT NULL,
    scheduler_job_id TEXT NOT NULL DEFAULT '',
    scheduler_log_id TEXT NOT NULL DEFAULT '',
    trigger_type_code TEXT NOT NULL,
    triggered_at TEXT NOT NULL,
    trigger_params TEXT NOT NULL,
    provenance_code TEXT NOT NULL,
    endpoint_name TEXT NOT NULL,
    operation_code TEXT NOT NULL,
    channel TEXT NOT NULL,
    provenance_config_snapshot TEXT,
    expr_proto_hash TEXT,
    expr_proto_snapshot TEXT,
    record_remarks TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
);
CREATE INDEX idx_sched_src ON ing_schedule_instance (scheduler_code, scheduler_job_id, scheduler_log_id);
CREATE INDEX idx_sched_prov ON ing_schedule_instance (provenance_code, triggered_at);

CREATE TABLE ing_plan (
    id INTEGER PRIMARY KEY,
    schedule_instance_id INTEGER NOT NULL,
    plan_key TEXT NOT NULL,
    -- namespace_hash while the plan is live, NULL afterwards: one live plan per namespace.
    live_key BLOB,
    provenance_code TEXT NOT NULL,
    endpoint_name TEXT NOT NULL,
    operation_code TEXT NOT NULL,
    cursor_key TEXT NOT NULL,
    namespace_scope_code TEXT NOT NULL,
    namespace_key TEXT NOT NULL,
    namespace_hash BLOB NOT NULL,
    window_from TEXT NOT NULL,
    window_to TEXT NOT NULL,
    slice_strategy_code TEXT NOT NULL,
    slice_params TEXT NOT NULL,
    expr_proto_hash TEXT NOT NULL,
    expr_proto_snapshot TEXT NOT NULL,
    spec_fingerprint TEXT NOT NULL,
    spec_snapshot TEXT NOT NULL,
    registry_version INTEGER NOT NULL,
    format_version INTEGER NOT NULL,
    slice_count INTEGER NOT NULL,
    -- Slices that are not terminal; the plan is COMPLETED when it reaches zero.
    open_slice_count INTEGER NOT NULL,
    status_code TEXT NOT NULL CHECK (status_code IN ('DRAFT','SLICING','READY','PARTIAL','FAILED','COMPLETED')),
    record_remarks TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
);
CREATE UNIQUE INDEX uk_plan_key ON ing_plan (plan_key);
CREATE UNIQUE INDEX uk_plan_live ON ing_plan (live_key);
CREATE INDEX idx_plan_prov_op ON ing_plan (provenance_code, operation_code, created_at);
CREATE INDEX idx_plan_expr ON ing_plan (expr_proto_hash);
CREATE INDEX idx_plan_status ON ing_plan (status_code, created_at);

CREATE TABLE ing_plan_slice (
    id INTEGER PRIMARY KEY,
    plan_id INTEGER NOT NULL,
    parent_slice_id INTEGER,
    provenance_code TEXT NOT NULL,
    endpoint_name TEXT NOT NULL,
    operation_code TEXT NOT NULL,
    namespace_hash BLOB NOT NULL,
    slice_no INTEGER NOT NULL,
    slice_signature_hash TEXT NOT NULL,
    slice_spec TEXT NOT NULL,
    expr_hash TEXT NOT NULL,
    expr_snapshot TEXT NOT NULL,
    window_from TEXT NOT NULL,
    window_to TEXT NOT NULL,
    -- JSON of the part of a window that time cannot cut further; NULL for a whole window.
    part TEXT,
    -- Source time at the first page of the pass that completed it.
    read_at TEXT,
    status_code TEXT NOT NULL CHECK (status_code IN ('PENDING','DISPATCHED','EXECUTING','SUCCEEDED','PARTIAL','FAILED','CANCELLED','SPLIT')),
    reason TEXT,
    stats TEXT,
    record_remarks TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
);
CREATE UNIQUE INDEX uk_slice_sig ON ing_plan_slice (plan_id, slice_signature_hash);
CREATE INDEX idx_slice_plan_status ON ing_plan_slice (plan_id, status_code);
CREATE INDEX idx_slice_prov_status ON ing_plan_slice (provenance_code, status_code);
CREATE INDEX idx_slice_coverage ON ing_plan_slice (namespace_hash, status_code, window_to);
CREATE INDEX idx_slice_parent ON ing_plan_slice (parent_slice_id);

CREATE TABLE ing_task (
    id INTEGER PRIMARY KEY,
    schedule_instance_id INTEGER NOT NULL,
    plan_id INTEGER NOT NULL,
    slice_id INTEGER NOT NULL,
    provenance_code TEXT NOT NULL,
    endpoint_name TEXT NOT NULL,
    operation_code TEXT NOT NULL,
    credential_id TEXT,
    params TEXT NOT NULL,
    first_token TEXT NOT NULL,
    idempotent_key BLOB NOT NULL,
    expr_hash TEXT NOT NULL,
    priority INTEGER NOT NULL,
    status_code TEXT NOT NULL CHECK (status_code IN ('QUEUED','RUNNING','SUCCEEDED','PARTIAL','FAILED','CANCELLED')),
    scheduled_at TEXT NOT NULL,
    lease_owner TEXT,
    -- NULL unless RUNNING.
    leased_until TEXT,
    lease_count INTEGER NOT NULL DEFAULT 0,
    lease_epoch INTEGER NOT NULL DEFAULT 0,
    run_uuid BLOB,
    attempt_no INTEGER NOT NULL DEFAULT 0,
    failure_count INTEGER NOT NULL DEFAULT 0,
    -- Leases lost in a row without progress since.
    lost_count INTEGER NOT NULL DEFAULT 0,
    -- Last committed page of any run; -1 before the first page of a pass.
    last_pass INTEGER NOT NULL DEFAULT 1,
    last_seq INTEGER NOT NULL DEFAULT -1,
    error TEXT,
    started_at TEXT,
    finished_at TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
);
CREATE UNIQUE INDEX uk_task_idem ON ing_task (idempotent_key);
CREATE INDEX idx_task_queue ON ing_task (status_code, leased_until, priority, scheduled_at, id);
CREATE INDEX idx_task_slice ON ing_task (slice_id, status_code);
CREATE INDEX idx_task_src_op ON ing_task (provenance_code, endpoint_name, operation_code, status_code);
CREATE INDEX idx_task_plan ON ing_task (plan_id, status_code);

CREATE TABLE ing_task_run (
    id INTEGER PRIMARY KEY,
    run_uuid BLOB NOT NULL,
    task_id INTEGER NOT NULL,
    slice_id INTEGER NOT NULL,
    plan_id INTEGER NOT NULL,
    attempt_no INTEGER NOT NULL,
    lease_epoch INTEGER NOT NULL,
    worker TEXT NOT NULL,
    provenance_code TEXT NOT NULL,
    endpoint_name TEXT NOT NULL,
    operation_code TEXT NOT NULL,
    status_code TEXT NOT NULL CHECK (status_code IN ('PLANNED','RUNNING','SUCCEEDED','PARTIAL','FAILED','CANCELLED')),
    checkpoint TEXT,
    stats TEXT,
    window_from TEXT NOT NULL,
    window_to TEXT NOT NULL,
    reason TEXT,
    error TEXT,
    started_at TEXT NOT NULL,
    finished_at TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
);
CREATE UNIQUE INDEX uk_run_attempt ON ing_task_run (task_id, attempt_no);
CREATE INDEX idx_run_task_status ON ing_task_run (task_id, status_code, started_at);
CREATE INDEX idx_run_prov_op_status ON ing_task_run (provenance_code, operation_code, status_code);

CREATE TABLE ing_task_run_batch (
    id INTEGER PRIMARY KEY,
    run_id INTEGER NOT NULL,
    task_id INTEGER NOT NULL,
    slice_id INTEGER NOT NULL,
    plan_id INTEGER NOT NULL,
    expr_hash TEXT NOT NULL,
    provenance_code TEXT NOT NULL,
    endpoint_name TEXT NOT NULL,
    operation_code TEXT NOT NULL,
    lease_epoch INTEGER NOT NULL,
    batch_no INTEGER NOT NULL,
    phase TEXT NOT NULL CHECK (phase IN ('search','detail')),
    pass_no INTEGER NOT NULL,
    seq_no INTEGER NOT NULL,
    before_token TEXT NOT NULL,
    before_token_hash BLOB NOT NULL,
    after_token TEXT,
    idempotent_key BLOB NOT NULL,
    -- What the page held, also the counts of its records.
    record_count INTEGER NOT NULL DEFAULT 0,
    total_hint INTEGER,
    -- Short hashes of the page's ids, eight bytes each, in page order.
    page_ids BLOB,
    -- Two-phase search: the ids themselves, a JSON array.
    id_list TEXT,
    spec_fingerprint TEXT,
    source_now TEXT,
    asked_at TEXT,
    fetched_at TEXT,
    response_hash BLOB,
    body_hash BLOB,
    request_digest TEXT,
    response_digest TEXT,
    stats TEXT,
    error TEXT,
    status_code TEXT NOT NULL CHECK (status_code IN ('RUNNING','SUCCEEDED','FAILED','SKIPPED')),
    started_at TEXT NOT NULL,
    committed_at TEXT
);
CREATE UNIQUE INDEX uk_run_batch_no ON ing_task_run_batch (run_id, batch_no);
CREATE UNIQUE INDEX uk_run_before_tok ON ing_task_run_batch (run_id, before_token_hash);
CREATE UNIQUE INDEX uk_batch_idem ON ing_task_run_batch (idempotent_key);
CREATE INDEX idx_batch_task ON ing_task_run_batch (task_id, status_code, pass_no, seq_no);
CREATE INDEX idx_batch_prov_op_status ON ing_task_run_batch (provenance_code, operation_code, status_code, committed_at);

CREATE TABLE ing_cursor (
    id INTEGER PRIMARY KEY,
    provenance_code TEXT NOT NULL,
    endpoint_name TEXT NOT NULL,
    operation_code TEXT NOT NULL,
    cursor_key TEXT NOT NULL,
    namespace_scope_code TEXT NOT NULL,
    namespace_key TEXT NOT NULL,
    namespace_hash BLOB NOT NULL,
    cursor_type_code TEXT NOT NULL,
    cursor_value TEXT NOT NULL,
    normalized_instant TEXT,
    normalized_numeric INTEGER,
    observed_max_value TEXT,
    -- Contiguous end of what need never be read again; a shortcut, never ahead of the slices.
    finished_to TEXT,
    version INTEGER NOT NULL,
    schedule_instance_id INTEGER,
    plan_id INTEGER,
    slice_id INTEGER,
    task_id INTEGER,
    run_id INTEGER,
    batch_id INTEGER,
    expr_hash TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
);
CREATE UNIQUE INDEX uk_cursor_ns ON ing_cursor (provenance_code, endpoint_name, operation_code, cursor_key, namespace_scope_code, namespace_key);
CREATE UNIQUE INDEX uk_cursor_hash ON ing_cursor (namespace_hash);
CREATE INDEX idx_cursor_sort_time ON ing_cursor (provenance_code, operation_code, normalized_instant);
CREATE INDEX idx_cursor_sort_id ON ing_cursor (provenance_code, operation_code, normalized_numeric);

CREATE TABLE ing_cursor_event (
    id INTEGER PRIMARY KEY,
    provenance_code TEXT NOT NULL,
    endpoint_name TEXT NOT NULL,
    operation_code TEXT NOT NULL,
    cursor_key TEXT NOT NULL,
    namespace_scope_code TEXT NOT NULL,
    namespace_key TEXT NOT NULL,
    namespace_hash BLOB NOT NULL,
    cursor_type_code TEXT NOT NULL,
    event_no INTEGER NOT NULL,
    direction_code TEXT NOT NULL CHECK (direction_code IN ('FORWARD','BACKFILL')),
    cause_code TEXT NOT NULL,
    prev_value TEXT NOT NULL,
    new_value TEXT NOT NULL,
    prev_instant TEXT,
    new_instant TEXT,
    prev_numeric INTEGER,
    new_numeric INTEGER,
    observed_max_value TEXT,
    window_from TEXT,
    window_to TEXT,
    idempotent_key BLOB NOT NULL,
    schedule_instance_id INTEGER,
    plan_id INTEGER,
    slice_id INTEGER,
    task_id INTEGER,
    run_id INTEGER,
    batch_id INTEGER,
    expr_hash TEXT,
    record_remarks TEXT,
    created_at TEXT NOT NULL
);
CREATE UNIQUE INDEX uk_cur_evt_idem ON ing_cursor_event (idempotent_key);
CREATE UNIQUE INDEX uk_cur_evt_no ON ing_cursor_event (namespace_hash, event_no);
CREATE INDEX idx_cur_evt_timeline ON ing_cursor_event (provenance_code, operation_code, namespace_scope_code, namespace_key, created_at);
CREATE INDEX idx_cur_evt_instant ON ing_cursor_event (provenance_code, operation_code, new_instant);
CREATE INDEX idx_cur_evt_lineage ON ing_cursor_event (plan_id, slice_id, task_id, run_id);

CREATE TABLE ing_record (
    id INTEGER PRIMARY KEY,
    provenance_code TEXT NOT NULL,
    -- The endpoint's declared entity.
    endpoint_name TEXT NOT NULL,
    provider_id TEXT NOT NULL,
    version_no INTEGER NOT NULL,
    updated_at TEXT,
    effective_at TEXT,
    declared_version TEXT,
    fetched_at TEXT NOT NULL,
    content_hash BLOB NOT NULL,
    mapping_version INTEGER NOT NULL,
    mapping_hash BLOB NOT NULL,
    expr_hash TEXT NOT NULL,
    deleted INTEGER NOT NULL,
    fields TEXT NOT NULL,
    payload BLOB NOT NULL,
    plan_id INTEGER NOT NULL,
    task_id INTEGER NOT NULL,
    run_id INTEGER NOT NULL,
    batch_id INTEGER NOT NULL,
    first_seen_at TEXT NOT NULL,
    changed_at TEXT NOT NULL,
    checked_at TEXT NOT NULL
);
CREATE UNIQUE INDEX uk_record ON ing_record (provenance_code, endpoint_name, provider_id);

CREATE TABLE ing_outbox (
    id INTEGER PRIMARY KEY,
    record_id INTEGER NOT NULL,
    version_no INTEGER NOT NULL,
    event_id BLOB NOT NULL,
    provenance_code TEXT NOT NULL,
    endpoint_name TEXT NOT NULL,
    provider_id TEXT NOT NULL,
    change_code TEXT NOT NULL CHECK (change_code IN ('CREATED','UPDATED','DELETED')),
    updated_at TEXT,
    content_hash BLOB NOT NULL,
    fields TEXT NOT NULL,
    batch_id INTEGER NOT NULL,
    status_code TEXT NOT NULL CHECK (status_code IN ('PENDING','SENT','PARKED')),
    created_at TEXT NOT NULL,
    sent_at TEXT
);
CREATE UNIQUE INDEX uk_outbox_version ON ing_outbox (record_id, version_no);
CREATE INDEX idx_outbox_status ON ing_outbox (status_code, id);

CREATE TABLE ing_quarantine (
    id INTEGER PRIMARY KEY,
    provenance_code TEXT NOT NULL,
    endpoint_name TEXT NOT NULL,
    provider_id TEXT,
    reason_code TEXT NOT NULL,
    path TEXT NOT NULL,
    message TEXT NOT NULL,
    raw BLOB NOT NULL,
    plan_id INTEGER NOT NULL,
    slice_id INTEGER NOT NULL,
    task_id INTEGER NOT NULL,
    run_id INTEGER NOT NULL,
    batch_id INTEGER NOT NULL,
    status_code TEXT NOT NULL CHECK (status_code IN ('OPEN','CLOSED')),
    created_at TEXT NOT NULL
);
CREATE INDEX idx_quarantine_src ON ing_quarantine (provenance_code, endpoint_name, status_code, id);
CREATE INDEX idx_quarantine_batch ON ing_quarantine (batch_id);

CREATE TABLE ing_missing_id (
    id INTEGER PRIMARY KEY,
    provenance_code TEXT NOT NULL,
    endpoint_name TEXT NOT NULL,
    provider_id TEXT NOT NULL,
    sightings INTEGER NOT NULL,
    reason TEXT NOT NULL,
    batch_id INTEGER NOT NULL,
    first_asked_at TEXT NOT NULL,
    last_asked_at TEXT NOT NULL,
    next_try_at TEXT NOT NULL,
    status_code TEXT NOT NULL CHECK (status_code IN ('OPEN','FOUND','TOMBSTONE'))
);
CREATE UNIQUE INDEX uk_missing_id ON ing_missing_id (provenance_code, endpoint_name, provider_id);
CREATE INDEX idx_missing_due ON ing_missing_id (provenance_code, endpoint_name, status_code, next_try_at);

CREATE TABLE ing_page_body (
    hash BLOB PRIMARY KEY,
    whole INTEGER NOT NULL,
    bytes_raw INTEGER NOT NULL,
    body_zstd BLOB NOT NULL,
    created_at TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE ing_quota (
    id INTEGER PRIMARY KEY,
    rate_key TEXT NOT NULL,
    window_code TEXT NOT NULL,
    window_start TEXT NOT NULL,
    reset_at TEXT NOT NULL,
    limit_count INTEGER NOT NULL,
    used_count INTEGER NOT NULL,
    updated_at TEXT NOT NULL
);
CREATE UNIQUE INDEX uk_quota ON ing_quota (rate_key, window_code, window_start);

CREATE TABLE ing_source_control (
    id INTEGER PRIMARY KEY,
    provenance_code TEXT NOT NULL,
    endpoint_name TEXT NOT NULL,
    paused INTEGER NOT NULL,
    fuse_blown INTEGER NOT NULL,
    reason TEXT,
    actor TEXT,
    source_behind_us INTEGER NOT NULL DEFAULT 0,
    updated_at TEXT NOT NULL
);
CREATE UNIQUE INDEX uk_source_control ON ing_source_control (provenance_code, endpoint_name);

CREATE TABLE ing_waiver (
    id INTEGER PRIMARY KEY,
    namespace_hash BLOB NOT NULL,
    window_from TEXT NOT NULL,
    window_to TEXT NOT NULL,
    actor TEXT NOT NULL,
    reason TEXT NOT NULL,
    created_at TEXT NOT NULL
);
CREATE INDEX idx_waiver_ns ON ing_waiver (namespace_hash, window_to);

CREATE TABLE ing_audit (
    id INTEGER PRIMARY KEY,
    actor TEXT NOT NULL,
    action_code TEXT NOT NULL,
    target TEXT NOT NULL,
    detail TEXT NOT NULL,
    created_at TEXT NOT NULL
);
CREATE INDEX idx_audit_time ON ing_audit (created_at);

CREATE TABLE ing_worker (
    slot INTEGER PRIMARY KEY,
    owner TEXT NOT NULL,
    leased_until TEXT NOT NULL
);
