-- What the clock triggers, and every time that it did. One firing for each schedule and due time.

CREATE TABLE ing_schedule (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    cron_expr TEXT NOT NULL,
    zone TEXT NOT NULL,
    jitter_us INTEGER NOT NULL,
    overlap_code TEXT NOT NULL CHECK (overlap_code IN ('SKIP','QUEUE')),
    catch_up_code TEXT NOT NULL CHECK (catch_up_code IN ('SKIP','ONCE','ALL')),
    provenance_code TEXT NOT NULL,
    endpoint_name TEXT NOT NULL,
    operation_code TEXT NOT NULL,
    channel TEXT NOT NULL,
    trigger_params TEXT NOT NULL,
    paused INTEGER NOT NULL DEFAULT 0,
    next_due_at TEXT NOT NULL,
    version INTEGER NOT NULL,
    actor TEXT NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
);
CREATE UNIQUE INDEX uk_schedule_name ON ing_schedule (name);

CREATE TABLE ing_schedule_firing (
    -- Also the id of the schedule instance that it opens.
    id INTEGER PRIMARY KEY,
    schedule_id INTEGER NOT NULL,
    due_at TEXT NOT NULL,
    trigger_type_code TEXT NOT NULL,
    -- The schedule as it was when it fired.
    schedule_snapshot TEXT NOT NULL,
    status_code TEXT NOT NULL CHECK (status_code IN ('PENDING','PLANNED','NOTHING_OWED','SKIPPED','REFUSED')),
    plan_id INTEGER,
    lease_owner TEXT,
    -- Nobody else takes it before this.
    leased_until TEXT NOT NULL,
    record_remarks TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
);
CREATE UNIQUE INDEX uk_firing_due ON ing_schedule_firing (schedule_id, due_at);
CREATE INDEX idx_firing_status ON ing_schedule_firing (status_code, id);
