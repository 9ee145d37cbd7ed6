-- What the clock triggers, and every time that it did. One firing for each schedule and due time.

CREATE TABLE IF NOT EXISTS ing_schedule (
    id BIGINT NOT NULL,
    name VARBINARY(255) NOT NULL,
    cron_expr VARBINARY(255) NOT NULL,
    zone VARBINARY(255) NOT NULL,
    jitter_us BIGINT NOT NULL,
    overlap_code VARBINARY(255) NOT NULL CHECK (overlap_code IN ('SKIP','QUEUE')),
    catch_up_code VARBINARY(255) NOT NULL CHECK (catch_up_code IN ('SKIP','ONCE','ALL')),
    provenance_code VARBINARY(255) NOT NULL,
    endpoint_name VARBINARY(255) NOT NULL,
    operation_code VARBINARY(255) NOT NULL,
    channel VARBINARY(255) NOT NULL,
    trigger_params LONGTEXT NOT NULL,
    paused BIGINT NOT NULL DEFAULT 0,
    next_due_at DATETIME(6) NOT NULL,
    version BIGINT NOT NULL,
    actor LONGTEXT NOT NULL,
    created_at DATETIME(6) NOT NULL,
    updated_at DATETIME(6) NOT NULL,
    PRIMARY KEY (id),
    UNIQUE KEY uk_schedule_name (name)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

CREATE TABLE IF NOT EXISTS ing_schedule_firing (
    -- Also the id of the schedule instance that it opens.
    id BIGINT NOT NULL,
    schedule_id BIGINT NOT NULL,
    due_at DATETIME(6) NOT NULL,
    trigger_type_code VARBINARY(255) NOT NULL,
    -- The schedule as it was when it fired.
    schedule_snapshot LONGTEXT NOT NULL,
    status_code VARBINARY(255) NOT NULL CHECK (status_code IN ('PENDING','PLANNED','NOTHING_OWED','SKIPPED','REFUSED')),
    plan_id BIGINT,
    lease_owner VARBINARY(255),
    -- Nobody else takes it before this.
    leased_until DATETIME(6) NOT NULL,
    record_remarks LONGTEXT,
    created_at DATETIME(6) NOT NULL,
    updated_at DATETIME(6) NOT NULL,
    PRIMARY KEY (id),
    UNIQUE KEY uk_firing_due (schedule_id, due_at),
    KEY idx_firing_status (status_code, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;
