-- What the clock triggers, and every time that it did. One firing for each schedule and due time.

CREATE TABLE ing_schedule (
    id BIGINT NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    cron_expr TEXT COLLATE "C" NOT NULL,
    zone TEXT COLLATE "C" NOT NULL,
    jitter_us BIGINT NOT NULL,
    overlap_code TEXT COLLATE "C" NOT NULL CHECK (overlap_code IN ('SKIP','QUEUE')),
    catch_up_code TEXT COLLATE "C" NOT NULL CHECK (catch_up_code IN ('SKIP','ONCE','ALL')),
    provenance_code TEXT COLLATE "C" NOT NULL,
    endpoint_name TEXT COLLATE "C" NOT NULL,
    operation_code TEXT COLLATE "C" NOT NULL,
    channel TEXT COLLATE "C" NOT NULL,
    trigger_params TEXT COLLATE "C" NOT NULL,
    paused BIGINT NOT NULL DEFAULT 0,
    next_due_at TIMESTAMPTZ NOT NULL,
    version BIGINT NOT NULL,
    actor TEXT COLLATE "C" NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX uk_schedule_name ON ing_schedule (name);

CREATE TABLE ing_schedule_firing (
    -- Also the id of the schedule instance that it opens.
    id BIGINT NOT NULL,
    schedule_id BIGINT NOT NULL,
    due_at TIMESTAMPTZ NOT NULL,
    trigger_type_code TEXT COLLATE "C" NOT NULL,
    -- The schedule as it was when it fired.
    schedule_snapshot TEXT COLLATE "C" NOT NULL,
    status_code TEXT COLLATE "C" NOT NULL CHECK (status_code IN ('PENDING','PLANNED','NOTHING_OWED','SKIPPED','REFUSED')),
    plan_id BIGINT,
    lease_owner TEXT COLLATE "C",
    -- Nobody else takes it before this.
    leased_until TIMESTAMPTZ NOT NULL,
    record_remarks TEXT COLLATE "C",
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX uk_firing_due ON ing_schedule_firing (schedule_id, due_at);
CREATE INDEX idx_firing_status ON ing_schedule_firing (status_code, id);
