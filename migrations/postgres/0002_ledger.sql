-- The ledger. Times are `timestamptz`, hashes are 32 bytes in hot tables and hex text elsewhere; keys compare byte by
-- byte (collation C); JSON is text and never looked into by SQL. A CHECK repeats the states of each machine.

CREATE TABLE ing_schedule_instance (
    id BIGINT NOT NULL,
    scheduler_code TEXT COLLATE "C" NOT NULL,
    scheduler_job_id TEXT COLLATE "C" NOT NULL DEFAULT '',
    scheduler_log_id TEXT COLLATE "C" NOT NULL DEFAULT '',
    trigger_type_code TEXT COLLATE "C" NOT NULL,
    triggered_at TIMESTAMPTZ NOT NULL,
    trigger_params TEXT COLLATE "C" NOT NULL,
    provenance_code TEXT COLLATE "C" NOT NULL,
    endpoint_name TEXT COLLATE "C" NOT NULL,
    operation_code TEXT COLLATE "C" NOT NULL,
    channel TEXT COLLATE "C" NOT NULL,
    provenance_config_snapshot TEXT COLLATE "C",
    expr_proto_hash TEXT COLLATE "C",
    expr_proto_snapshot TEXT COLLATE "C",
    record_remarks TEXT COLLATE "C",
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX idx_sched_src ON ing_schedule_instance (scheduler_code, scheduler_job_id, scheduler_log_id);
CREATE INDEX idx_sched_prov ON ing_schedule_instance (provenance_code, triggered_at);

CREATE TABLE ing_plan (
    id BIGINT NOT NULL,
    schedule_instance_id BIGINT NOT NULL,
    plan_key TEXT COLLATE "C" NOT NULL,
    -- namespace_hash while the plan is live, NULL afterwards: one live plan per namespace.
    live_key BYTEA,
    provenance_code TEXT COLLATE "C" NOT NULL,
    endpoint_name TEXT COLLATE "C" NOT NULL,
    operation_code TEXT COLLATE "C" NOT NULL,
    cursor_key TEXT COLLATE "C" NOT NULL,
    namespace_scope_code TEXT COLLATE "C" NOT NULL,
    namespace_key TEXT COLLATE "C" NOT NULL,
    namespace_hash BYTEA NOT NULL,
    window_from TIMESTAMPTZ NOT NULL,
    window_to TIMESTAMPTZ NOT NULL,
    slice_strategy_code TEXT COLLATE "C" NOT NULL,
    slice_params TEXT COLLATE "C" NOT NULL,
    expr_proto_hash TEXT COLLATE "C" NOT NULL,
    expr_proto_snapshot TEXT COLLATE "C" NOT NULL,
    spec_fingerprint TEXT COLLATE "C" NOT NULL,
    spec_snapshot TEXT COLLATE "C" NOT NULL,
    registry_version BIGINT NOT NULL,
    format_version BIGINT NOT NULL,
    slice_count BIGINT NOT NULL,
    -- Slices that are not terminal; the plan is COMPLETED when it reaches zero.
    open_slice_count BIGINT NOT NULL,
    status_code TEXT COLLATE "C" NOT NULL CHECK (status_code IN ('DRAFT','SLICING','READY','PARTIAL','FAILED','COMPLETED')),
    record_remarks TEXT COLLATE "C",
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX uk_plan_key ON ing_plan (plan_key);
CREATE UNIQUE INDEX uk_plan_live ON ing_plan (live_key);
CREATE INDEX idx_plan_prov_op ON ing_plan (provenance_code, operation_code, created_at);
CREATE INDEX idx_plan_expr ON ing_plan (expr_proto_hash);
CREATE INDEX idx_plan_status ON ing_plan (status_code, created_at);

CREATE TABLE ing_plan_slice (
    id BIGINT NOT NULL,
    plan_id BIGINT NOT NULL,
    parent_slice_id BIGINT,
    provenance_code TEXT COLLATE "C" NOT NULL,
    endpoint_name TEXT COLLATE "C" NOT NULL,
    operation_code TEXT COLLATE "C" NOT NULL,
    namespace_hash BYTEA NOT NULL,
    slice_no BIGINT NOT NULL,
    slice_signature_hash TEXT COLLATE "C" NOT NULL,
    slice_spec TEXT COLLATE "C" NOT NULL,
    expr_hash TEXT COLLATE "C" NOT NULL,
    expr_snapshot TEXT COLLATE "C" NOT NULL,
    window_from TIMESTAMPTZ NOT NULL,
    window_to TIMESTAMPTZ NOT NULL,
    -- JSON of the part of a window that time cannot cut further; NULL for a whole window.
    part TEXT COLLATE "C",
    -- Source time at the first page of the pass that completed it.
    read_at TIMESTAMPTZ,
    status_code TEXT COLLATE "C" NOT NULL CHECK (status_code IN ('PENDING','DISPATCHED','EXECUTING','SUCCEEDED','PARTIAL','FAILED','CANCELLED','SPLIT')),
    reason TEXT COLLATE "C",
    stats TEXT COLLATE "C",
    record_remarks TEXT COLLATE "C",
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX uk_slice_sig ON ing_plan_slice (plan_id, slice_signature_hash);
CREATE INDEX idx_slice_plan_status ON ing_plan_slice (plan_id, status_code);
CREATE INDEX idx_slice_prov_status ON ing_plan_slice (provenance_code, status_code);
CREATE INDEX idx_slice_coverage ON ing_plan_slice (namespace_hash, status_code, window_to);
CREATE INDEX idx_slice_parent ON ing_plan_slice (parent_slice_id);

CREATE TABLE ing_task (
    id BIGINT NOT NULL,
    schedule_instance_id BIGINT NOT NULL,
    plan_id BIGINT NOT NULL,
    slice_id BIGINT NOT NULL,
    provenance_code TEXT COLLATE "C" NOT NULL,
    endpoint_name TEXT COLLATE "C" NOT NULL,
    operation_code TEXT COLLATE "C" NOT NULL,
    credential_id TEXT COLLATE "C",
    params TEXT COLLATE "C" NOT NULL,
    first_token TEXT COLLATE "C" NOT NULL,
    idempotent_key BYTEA NOT NULL,
    expr_hash TEXT COLLATE "C" NOT NULL,
    priority BIGINT NOT NULL,
    status_code TEXT COLLATE "C" NOT NULL CHECK (status_code IN ('QUEUED','RUNNING','SUCCEEDED','PARTIAL','FAILED','CANCELLED')),
    scheduled_at TIMESTAMPTZ NOT NULL,
    lease_owner TEXT COLLATE "C",
    -- NULL unless RUNNING.
    leased_until TIMESTAMPTZ,
    lease_count BIGINT NOT NULL DEFAULT 0,
    lease_epoch BIGINT NOT NULL DEFAULT 0,
    run_uuid BYTEA,
    attempt_no BIGINT NOT NULL DEFAULT 0,
    failure_count BIGINT NOT NULL DEFAULT 0,
    -- Leases lost in a row without progress since.
    lost_count BIGINT NOT NULL DEFAULT 0,
    -- Last committed page of any run; -1 before the first page of a pass.
    last_pass BIGINT NOT NULL DEFAULT 1,
    last_seq BIGINT NOT NULL DEFAULT -1,
    error TEXT COLLATE "C",
    started_at TIMESTAMPTZ,
    finished_at TIMESTAMPTZ,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX uk_task_idem ON ing_task (idempotent_key);
CREATE INDEX idx_task_queue ON ing_task (status_code, leased_until, priority, scheduled_at, id);
CREATE INDEX idx_task_slice ON ing_task (slice_id, status_code);
CREATE INDEX idx_task_src_op ON ing_task (provenance_code, endpoint_name, operation_code, status_code);
CREATE INDEX idx_task_plan ON ing_task (plan_id, status_code);

CREATE TABLE ing_task_run (
    id BIGINT NOT NULL,
    run_uuid BYTEA NOT NULL,
    task_id BIGINT NOT NULL,
    slice_id BIGINT NOT NULL,
    plan_id BIGINT NOT NULL,
    attempt_no BIGINT NOT NULL,
    lease_epoch BIGINT NOT NULL,
    worker TEXT COLLATE "C" NOT NULL,
    provenance_code TEXT COLLATE "C" NOT NULL,
    endpoint_name TEXT COLLATE "C" NOT NULL,
    operation_code TEXT COLLATE "C" NOT NULL,
    status_code TEXT COLLATE "C" NOT NULL CHECK (status_code IN ('PLANNED','RUNNING','SUCCEEDED','PARTIAL','FAILED','CANCELLED')),
    checkpoint TEXT COLLATE "C",
    stats TEXT COLLATE "C",
    window_from TIMESTAMPTZ NOT NULL,
    window_to TIMESTAMPTZ NOT NULL,
    reason TEXT COLLATE "C",
    error TEXT COLLATE "C",
    started_at TIMESTAMPTZ NOT NULL,
    finished_at TIMESTAMPTZ,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX uk_run_attempt ON ing_task_run (task_id, attempt_no);
CREATE INDEX idx_run_task_status ON ing_task_run (task_id, status_code, started_at);
CREATE INDEX idx_run_prov_op_status ON ing_task_run (provenance_code, operation_code, status_code);

CREATE TABLE ing_task_run_batch (
    id BIGINT NOT NULL,
    run_id BIGINT NOT NULL,
    task_id BIGINT NOT NULL,
    slice_id BIGINT NOT NULL,
    plan_id BIGINT NOT NULL,
    expr_hash TEXT COLLATE "C" NOT NULL,
    provenance_code TEXT COLLATE "C" NOT NULL,
    endpoint_name TEXT COLLATE "C" NOT NULL,
    operation_code TEXT COLLATE "C" NOT NULL,
    lease_epoch BIGINT NOT NULL,
    batch_no BIGINT NOT NULL,
    phase TEXT COLLATE "C" NOT NULL CHECK (phase IN ('search','detail')),
    pass_no BIGINT NOT NULL,
    seq_no BIGINT NOT NULL,
    before_token TEXT COLLATE "C" NOT NULL,
    before_token_hash BYTEA NOT NULL,
    after_token TEXT COLLATE "C",
    idempotent_key BYTEA NOT NULL,
    -- What the page held, also the counts of its records.
    record_count BIGINT NOT NULL DEFAULT 0,
    total_hint BIGINT,
    -- Short hashes of the page's ids, eight bytes each, in page order.
    page_ids BYTEA,
    -- Two-phase search: the ids themselves, a JSON array.
    id_list TEXT COLLATE "C",
    spec_fingerprint TEXT COLLATE "C",
    source_now TIMESTAMPTZ,
    asked_at TIMESTAMPTZ,
    fetched_at TIMESTAMPTZ,
    response_hash BYTEA,
    body_hash BYTEA,
    request_digest TEXT COLLATE "C",
    response_digest TEXT COLLATE "C",
    stats TEXT COLLATE "C",
    error TEXT COLLATE "C",
    status_code TEXT COLLATE "C" NOT NULL CHECK (status_code IN ('RUNNING','SUCCEEDED','FAILED','SKIPPED')),
    started_at TIMESTAMPTZ NOT NULL,
    committed_at TIMESTAMPTZ,
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX uk_run_batch_no ON ing_task_run_batch (run_id, batch_no);
CREATE UNIQUE INDEX uk_run_before_tok ON ing_task_run_batch (run_id, before_token_hash);
CREATE UNIQUE INDEX uk_batch_idem ON ing_task_run_batch (idempotent_key);
CREATE INDEX idx_batch_task ON ing_task_run_batch (task_id, status_code, pass_no, seq_no);
CREATE INDEX idx_batch_prov_op_status ON ing_task_run_batch (provenance_code, operation_code, status_code, committed_at);

CREATE TABLE ing_cursor (
    id BIGINT NOT NULL,
    provenance_code TEXT COLLATE "C" NOT NULL,
    endpoint_name TEXT COLLATE "C" NOT NULL,
    operation_code TEXT COLLATE "C" NOT NULL,
    cursor_key TEXT COLLATE "C" NOT NULL,
    namespace_scope_code TEXT COLLATE "C" NOT NULL,
    namespace_key TEXT COLLATE "C" NOT NULL,
    namespace_hash BYTEA NOT NULL,
    cursor_type_code TEXT COLLATE "C" NOT NULL,
    cursor_value TEXT COLLATE "C" NOT NULL,
    normalized_instant TIMESTAMPTZ,
    normalized_numeric BIGINT,
    observed_max_value TIMESTAMPTZ,
    -- Contiguous end of what need never be read again; a shortcut, never ahead of the slices.
    finished_to TIMESTAMPTZ,
    version BIGINT NOT NULL,
    schedule_instance_id BIGINT,
    plan_id BIGINT,
    slice_id BIGINT,
    task_id BIGINT,
    run_id BIGINT,
    batch_id BIGINT,
    expr_hash TEXT COLLATE "C",
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX uk_cursor_ns ON ing_cursor (provenance_code, endpoint_name, operation_code, cursor_key, namespace_scope_code, namespace_key);
CREATE UNIQUE INDEX uk_cursor_hash ON ing_cursor (namespace_hash);
CREATE INDEX idx_cursor_sort_time ON ing_cursor (provenance_code, operation_code, normalized_instant);
CREATE INDEX idx_cursor_sort_id ON ing_cursor (provenance_code, operation_code, normalized_numeric);

CREATE TABLE ing_cursor_event (
    id BIGINT NOT NULL,
    provenance_code TEXT COLLATE "C" NOT NULL,
    endpoint_name TEXT COLLATE "C" NOT NULL,
    operation_code TEXT COLLATE "C" NOT NULL,
    cursor_key TEXT COLLATE "C" NOT NULL,
    namespace_scope_code TEXT COLLATE "C" NOT NULL,
    namespace_key TEXT COLLATE "C" NOT NULL,
    namespace_hash BYTEA NOT NULL,
    cursor_type_code TEXT COLLATE "C" NOT NULL,
    event_no BIGINT NOT NULL,
    direction_code TEXT COLLATE "C" NOT NULL CHECK (direction_code IN ('FORWARD','BACKFILL')),
    cause_code TEXT COLLATE "C" NOT NULL,
    prev_value TEXT COLLATE "C" NOT NULL,
    new_value TEXT COLLATE "C" NOT NULL,
    prev_instant TIMESTAMPTZ,
    new_instant TIMESTAMPTZ,
    prev_numeric BIGINT,
    new_numeric BIGINT,
    observed_max_value TIMESTAMPTZ,
    window_from TIMESTAMPTZ,
    window_to TIMESTAMPTZ,
    idempotent_key BYTEA NOT NULL,
    schedule_instance_id BIGINT,
    plan_id BIGINT,
    slice_id BIGINT,
    task_id BIGINT,
    run_id BIGINT,
    batch_id BIGINT,
    expr_hash TEXT COLLATE "C",
    record_remarks TEXT COLLATE "C",
    created_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX uk_cur_evt_idem ON ing_cursor_event (idempotent_key);
CREATE UNIQUE INDEX uk_cur_evt_no ON ing_cursor_event (namespace_hash, event_no);
CREATE INDEX idx_cur_evt_timeline ON ing_cursor_event (provenance_code, operation_code, namespace_scope_code, namespace_key, created_at);
CREATE INDEX idx_cur_evt_instant ON ing_cursor_event (provenance_code, operation_code, new_instant);
CREATE INDEX idx_cur_evt_lineage ON ing_cursor_event (plan_id, slice_id, task_id, run_id);

CREATE TABLE ing_record (
    id BIGINT NOT NULL,
    provenance_code TEXT COLLATE "C" NOT NULL,
    -- The endpoint's declared entity.
    endpoint_name TEXT COLLATE "C" NOT NULL,
    provider_id TEXT COLLATE "C" NOT NULL,
    version_no BIGINT NOT NULL,
    updated_at TIMESTAMPTZ,
    effective_at TIMESTAMPTZ,
    declared_version TEXT COLLATE "C",
    fetched_at TIMESTAMPTZ NOT NULL,
    content_hash BYTEA NOT NULL,
    mapping_version BIGINT NOT NULL,
    mapping_hash BYTEA NOT NULL,
    expr_hash TEXT COLLATE "C" NOT NULL,
    deleted BIGINT NOT NULL,
    fields TEXT COLLATE "C" NOT NULL,
    payload BYTEA NOT NULL,
    plan_id BIGINT NOT NULL,
    task_id BIGINT NOT NULL,
    run_id BIGINT NOT NULL,
    batch_id BIGINT NOT NULL,
    first_seen_at TIMESTAMPTZ NOT NULL,
    changed_at TIMESTAMPTZ NOT NULL,
    checked_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (id)
);
-- Compressing records with lz4 halves the cost of an upsert; servers before 14 or built without it keep their default.
DO $$
BEGIN
    EXECUTE 'ALTER TABLE ing_record ALTER COLUMN payload SET COMPRESSION lz4';
EXCEPTION WHEN syntax_error OR feature_not_supported OR invalid_parameter_value THEN
    RAISE NOTICE 'lz4 is not available';
END $$;
CREATE UNIQUE INDEX uk_record ON ing_record (provenance_code, endpoint_name, provider_id);

CREATE TABLE ing_outbox (
    id BIGINT NOT NULL,
    record_id BIGINT NOT NULL,
    version_no BIGINT NOT NULL,
    event_id BYTEA NOT NULL,
    provenance_code TEXT COLLATE "C" NOT NULL,
    endpoint_name TEXT COLLATE "C" NOT NULL,
    provider_id TEXT COLLATE "C" NOT NULL,
    change_code TEXT COLLATE "C" NOT NULL CHECK (change_code IN ('CREATED','UPDATED','DELETED')),
    updated_at TIMESTAMPTZ,
    content_hash BYTEA NOT NULL,
    fields TEXT COLLATE "C" NOT NULL,
    batch_id BIGINT NOT NULL,
    status_code TEXT COLLATE "C" NOT NULL CHECK (status_code IN ('PENDING','SENT','PARKED')),
    created_at TIMESTAMPTZ NOT NULL,
    sent_at TIMESTAMPTZ,
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX uk_outbox_version ON ing_outbox (record_id, version_no);
CREATE INDEX idx_outbox_status ON ing_outbox (status_code, id);

CREATE TABLE ing_quarantine (
    id BIGINT NOT NULL,
    provenance_code TEXT COLLATE "C" NOT NULL,
    endpoint_name TEXT COLLATE "C" NOT NULL,
    provider_id TEXT COLLATE "C",
    reason_code TEXT COLLATE "C" NOT NULL,
    path TEXT COLLATE "C" NOT NULL,
    message TEXT COLLATE "C" NOT NULL,
    raw BYTEA NOT NULL,
    plan_id BIGINT NOT NULL,
    slice_id BIGINT NOT NULL,
    task_id BIGINT NOT NULL,
    run_id BIGINT NOT NULL,
    batch_id BIGINT NOT NULL,
    status_code TEXT COLLATE "C" NOT NULL CHECK (status_code IN ('OPEN','CLOSED')),
    created_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX idx_quarantine_src ON ing_quarantine (provenance_code, endpoint_name, status_code, id);
CREATE INDEX idx_quarantine_batch ON ing_quarantine (batch_id);

CREATE TABLE ing_missing_id (
    id BIGINT NOT NULL,
    provenance_code TEXT COLLATE "C" NOT NULL,
    endpoint_name TEXT COLLATE "C" NOT NULL,
    provider_id TEXT COLLATE "C" NOT NULL,
    sightings BIGINT NOT NULL,
    reason TEXT COLLATE "C" NOT NULL,
    batch_id BIGINT NOT NULL,
    first_asked_at TIMESTAMPTZ NOT NULL,
    last_asked_at TIMESTAMPTZ NOT NULL,
    next_try_at TIMESTAMPTZ NOT NULL,
    status_code TEXT COLLATE "C" NOT NULL CHECK (status_code IN ('OPEN','FOUND','TOMBSTONE')),
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX uk_missing_id ON ing_missing_id (provenance_code, endpoint_name, provider_id);
CREATE INDEX idx_missing_due ON ing_missing_id (provenance_code, endpoint_name, status_code, next_try_at);

CREATE TABLE ing_page_body (
    hash BYTEA NOT NULL,
    whole BIGINT NOT NULL,
    bytes_raw BIGINT NOT NULL,
    body_zstd BYTEA NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (hash)
);

CREATE TABLE ing_quota (
    id BIGINT NOT NULL,
    rate_key TEXT COLLATE "C" NOT NULL,
    window_code TEXT COLLATE "C" NOT NULL,
    window_start TIMESTAMPTZ NOT NULL,
    reset_at TIMESTAMPTZ NOT NULL,
    limit_count BIGINT NOT NULL,
    used_count BIGINT NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX uk_quota ON ing_quota (rate_key, window_code, window_start);

CREATE TABLE ing_source_control (
    id BIGINT NOT NULL,
    provenance_code TEXT COLLATE "C" NOT NULL,
    endpoint_name TEXT COLLATE "C" NOT NULL,
    paused BIGINT NOT NULL,
    fuse_blown BIGINT NOT NULL,
    reason TEXT COLLATE "C",
    actor TEXT COLLATE "C",
    source_behind_us BIGINT NOT NULL DEFAULT 0,
    updated_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX uk_source_control ON ing_source_control (provenance_code, endpoint_name);

CREATE TABLE ing_waiver (
    id BIGINT NOT NULL,
    namespace_hash BYTEA NOT NULL,
    window_from TIMESTAMPTZ NOT NULL,
    window_to TIMESTAMPTZ NOT NULL,
    actor TEXT COLLATE "C" NOT NULL,
    reason TEXT COLLATE "C" NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX idx_waiver_ns ON ing_waiver (namespace_hash, window_to);

CREATE TABLE ing_audit (
    id BIGINT NOT NULL,
    actor TEXT COLLATE "C" NOT NULL,
    action_code TEXT COLLATE "C" NOT NULL,
    target TEXT COLLATE "C" NOT NULL,
    detail TEXT COLLATE "C" NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX idx_audit_time ON ing_audit (created_at);

CREATE TABLE ing_worker (
    slot BIGINT NOT NULL,
    owner TEXT COLLATE "C" NOT NULL,
    leased_until TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (slot)
);
