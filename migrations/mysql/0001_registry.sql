-- The registry: versions of source definitions and the dictionaries of their codes.
--
-- A version is never edited: a change adds a version and ends the one before it (`effective_to`). The ends of a
-- version are native times; other times and lengths of time are ISO-8601 text; flags are 0 and 1; lists and maps are JSON text.
-- A null means that the level says nothing and the one below it holds.

CREATE TABLE IF NOT EXISTS sys_dict_type (
    type_code VARBINARY(255) NOT NULL,
    type_name LONGTEXT NOT NULL,
    PRIMARY KEY (type_code)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

CREATE TABLE IF NOT EXISTS sys_dict_item (
    type_code VARBINARY(255) NOT NULL,
    item_code VARBINARY(255) NOT NULL,
    item_name LONGTEXT NOT NULL,
    display_order BIGINT NOT NULL,
    PRIMARY KEY (type_code, item_code)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

-- What people may write for a code; compared without regard to case.
CREATE TABLE IF NOT EXISTS sys_dict_item_alias (
    type_code VARBINARY(255) NOT NULL,
    item_code VARBINARY(255) NOT NULL,
    alias VARBINARY(255) NOT NULL,
    PRIMARY KEY (type_code, alias)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

-- One version of one source. `definition` is the YAML as written.
CREATE TABLE IF NOT EXISTS reg_provenance (
    id BIGINT NOT NULL,
    provenance_code VARBINARY(64) NOT NULL,
    endpoint_name VARBINARY(128) NOT NULL DEFAULT '',
    registry_version BIGINT NOT NULL,
    effective_from DATETIME(6) NOT NULL,
    effective_to DATETIME(6),
    created_at DATETIME(6) NOT NULL,
    channel VARBINARY(64) NOT NULL,
    definition LONGTEXT NOT NULL,
    definition_hash LONGTEXT NOT NULL,
    actor LONGTEXT NOT NULL,
    remark VARBINARY(255) NOT NULL DEFAULT '',
    provenance_name LONGTEXT NOT NULL,
    description LONGTEXT,
    contact LONGTEXT,
    contact_required BIGINT CHECK (contact_required IN (0, 1)),
    user_agent LONGTEXT,
    settings LONGTEXT,
    blackbox_code VARBINARY(255),
    quarantine_share_max LONGTEXT,
    quarantine_records_max BIGINT,
    PRIMARY KEY (id),
    UNIQUE KEY uk_provenance (provenance_code, registry_version, endpoint_name),
    KEY idx_provenance_at (provenance_code, endpoint_name, effective_from)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

-- Endpoints: use, request line, format of the answer.
CREATE TABLE IF NOT EXISTS reg_prov_endpoint_def (
    id BIGINT NOT NULL,
    provenance_code VARBINARY(64) NOT NULL,
    endpoint_name VARBINARY(128) NOT NULL DEFAULT '',
    registry_version BIGINT NOT NULL,
    effective_from DATETIME(6) NOT NULL,
    effective_to DATETIME(6),
    created_at DATETIME(6) NOT NULL,
    position BIGINT NOT NULL,
    role_code VARBINARY(255),
    entity LONGTEXT,
    auth_code VARBINARY(255),
    credential_name LONGTEXT,
    priority BIGINT,
    namespace_scope_code VARBINARY(16),
    blackbox_code VARBINARY(255),
    timeout LONGTEXT,
    http_method_code VARBINARY(255),
    path_template LONGTEXT NOT NULL,
    body_json LONGTEXT,
    format_code VARBINARY(255),
    xml_namespaces LONGTEXT,
    time_kind_code VARBINARY(255),
    time_zone LONGTEXT,
    total_tolerance LONGTEXT,
    PRIMARY KEY (id),
    UNIQUE KEY uk_endpoint_def (provenance_code, registry_version, endpoint_name),
    KEY idx_endpoint_def_at (provenance_code, endpoint_name, effective_from)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

-- Transport manners, of the source or of one endpoint.
CREATE TABLE IF NOT EXISTS reg_prov_http_cfg (
    id BIGINT NOT NULL,
    provenance_code VARBINARY(64) NOT NULL,
    endpoint_name VARBINARY(128) NOT NULL DEFAULT '',
    registry_version BIGINT NOT NULL,
    effective_from DATETIME(6) NOT NULL,
    effective_to DATETIME(6),
    created_at DATETIME(6) NOT NULL,
    base_url LONGTEXT,
    allow_http BIGINT CHECK (allow_http IN (0, 1)),
    allow_hosts LONGTEXT,
    connect_timeout LONGTEXT,
    read_timeout LONGTEXT,
    total_timeout LONGTEXT,
    redirects_max BIGINT,
    proxy_url LONGTEXT,
    body_bytes_max BIGINT,
    ratio_max BIGINT,
    PRIMARY KEY (id),
    UNIQUE KEY uk_http_cfg (provenance_code, registry_version, endpoint_name),
    KEY idx_http_cfg_at (provenance_code, endpoint_name, effective_from)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

-- Credentials. They name secrets and never hold them.
CREATE TABLE IF NOT EXISTS reg_prov_credential (
    id BIGINT NOT NULL,
    provenance_code VARBINARY(64) NOT NULL,
    endpoint_name VARBINARY(128) NOT NULL DEFAULT '',
    registry_version BIGINT NOT NULL,
    effective_from DATETIME(6) NOT NULL,
    effective_to DATETIME(6),
    created_at DATETIME(6) NOT NULL,
    credential_name VARBINARY(255) NOT NULL,
    position BIGINT NOT NULL,
    auth_type_code VARBINARY(255) NOT NULL,
    placement_code VARBINARY(255),
    param_name LONGTEXT,
    secret_prefix LONGTEXT,
    secret_ref LONGTEXT,
    user_ref LONGTEXT,
    password_ref LONGTEXT,
    token_url LONGTEXT,
    client_id_ref LONGTEXT,
    client_secret_ref LONGTEXT,
    oauth_scope LONGTEXT,
    refresh_before LONGTEXT,
    signing_hook_code VARBINARY(255),
    hook_options LONGTEXT,
    is_optional BIGINT CHECK (is_optional IN (0, 1)),
    PRIMARY KEY (id),
    UNIQUE KEY uk_credential (provenance_code, registry_version, credential_name),
    KEY idx_credential_at (provenance_code, endpoint_name, effective_from)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

-- How pages follow each other.
CREATE TABLE IF NOT EXISTS reg_prov_pagination_cfg (
    id BIGINT NOT NULL,
    provenance_code VARBINARY(64) NOT NULL,
    endpoint_name VARBINARY(128) NOT NULL DEFAULT '',
    registry_version BIGINT NOT NULL,
    effective_from DATETIME(6) NOT NULL,
    effective_to DATETIME(6),
    created_at DATETIME(6) NOT NULL,
    pagination_type_code VARBINARY(255),
    page_size BIGINT,
    page_size_max BIGINT,
    page_max BIGINT,
    page_base BIGINT,
    initial_token LONGTEXT,
    next_path LONGTEXT,
    is_replayable BIGINT CHECK (is_replayable IN (0, 1)),
    token_ttl LONGTEXT,
    stop_codes LONGTEXT,
    result_cap BIGINT,
    slice_records_max BIGINT,
    overlap_items BIGINT,
    is_backward BIGINT CHECK (is_backward IN (0, 1)),
    tail_probe BIGINT CHECK (tail_probe IN (0, 1)),
    PRIMARY KEY (id),
    UNIQUE KEY uk_pagination_cfg (provenance_code, registry_version, endpoint_name),
    KEY idx_pagination_cfg_at (provenance_code, endpoint_name, effective_from)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

-- How time is cut and how the source understands it.
CREATE TABLE IF NOT EXISTS reg_prov_window_offset_cfg (
    id BIGINT NOT NULL,
    provenance_code VARBINARY(64) NOT NULL,
    endpoint_name VARBINARY(128) NOT NULL DEFAULT '',
    registry_version BIGINT NOT NULL,
    effective_from DATETIME(6) NOT NULL,
    effective_to DATETIME(6),
    created_at DATETIME(6) NOT NULL,
    updated_since BIGINT CHECK (updated_since IN (0, 1)),
    watermark_key LONGTEXT,
    origin_at LONGTEXT,
    boundary_kind_code VARBINARY(255),
    boundary_grain LONGTEXT,
    boundary_zone LONGTEXT,
    boundary_fractional BIGINT CHECK (boundary_fractional IN (0, 1)),
    align_code VARBINARY(255),
    window_min LONGTEXT,
    window_max LONGTEXT,
    slice_width LONGTEXT,
    safety_lag LONGTEXT,
    lookback LONGTEXT,
    out_of_range_code VARBINARY(255),
    order_code VARBINARY(255),
    client_filter BIGINT CHECK (client_filter IN (0, 1)),
    as_of BIGINT CHECK (as_of IN (0, 1)),
    second_key_type_code VARBINARY(255),
    second_key_from BIGINT,
    second_key_to BIGINT,
    second_key_buckets BIGINT,
    PRIMARY KEY (id),
    UNIQUE KEY uk_window_offset_cfg (provenance_code, registry_version, endpoint_name),
    KEY idx_window_offset_cfg_at (provenance_code, endpoint_name, effective_from)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

-- How failed requests are repeated, and what failures mean.
CREATE TABLE IF NOT EXISTS reg_prov_retry_cfg (
    id BIGINT NOT NULL,
    provenance_code VARBINARY(64) NOT NULL,
    endpoint_name VARBINARY(128) NOT NULL DEFAULT '',
    registry_version BIGINT NOT NULL,
    effective_from DATETIME(6) NOT NULL,
    effective_to DATETIME(6),
    created_at DATETIME(6) NOT NULL,
    error_rules LONGTEXT,
    backoff_first LONGTEXT,
    backoff_factor LONGTEXT,
    backoff_longest LONGTEXT,
    jitter_share LONGTEXT,
    attempts_max BIGINT,
    retry_statuses LONGTEXT,
    PRIMARY KEY (id),
    UNIQUE KEY uk_retry_cfg (provenance_code, registry_version, endpoint_name),
    KEY idx_retry_cfg_at (provenance_code, endpoint_name, effective_from)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

-- Limits, of the source, one endpoint or one credential.
CREATE TABLE IF NOT EXISTS reg_prov_rate_limit_cfg (
    id BIGINT NOT NULL,
    provenance_code VARBINARY(64) NOT NULL,
    endpoint_name VARBINARY(128) NOT NULL DEFAULT '',
    registry_version BIGINT NOT NULL,
    effective_from DATETIME(6) NOT NULL,
    effective_to DATETIME(6),
    created_at DATETIME(6) NOT NULL,
    credential_name VARBINARY(255) NOT NULL DEFAULT '',
    requests_per_second BIGINT,
    requests_per_minute BIGINT,
    requests_per_hour BIGINT,
    requests_per_day BIGINT,
    rate_windows LONGTEXT,
    burst BIGINT,
    concurrency BIGINT,
    key_parts LONGTEXT,
    respect_headers BIGINT CHECK (respect_headers IN (0, 1)),
    permit_cost BIGINT,
    PRIMARY KEY (id),
    UNIQUE KEY uk_rate_limit_cfg (provenance_code, registry_version, endpoint_name, credential_name),
    KEY idx_rate_limit_cfg_at (provenance_code, endpoint_name, effective_from)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

-- Which endpoint gives records for ids, and how many at once.
CREATE TABLE IF NOT EXISTS reg_prov_batching_cfg (
    id BIGINT NOT NULL,
    provenance_code VARBINARY(64) NOT NULL,
    endpoint_name VARBINARY(128) NOT NULL DEFAULT '',
    registry_version BIGINT NOT NULL,
    effective_from DATETIME(6) NOT NULL,
    effective_to DATETIME(6),
    created_at DATETIME(6) NOT NULL,
    purpose_code VARBINARY(255) NOT NULL,
    detail_endpoint LONGTEXT NOT NULL,
    id_batch_size BIGINT NOT NULL,
    PRIMARY KEY (id),
    UNIQUE KEY uk_batching_cfg (provenance_code, registry_version, endpoint_name, purpose_code),
    KEY idx_batching_cfg_at (provenance_code, endpoint_name, effective_from)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

-- Parameters, headers and form fields with their templates.
CREATE TABLE IF NOT EXISTS reg_prov_api_param_map (
    id BIGINT NOT NULL,
    provenance_code VARBINARY(64) NOT NULL,
    endpoint_name VARBINARY(128) NOT NULL DEFAULT '',
    registry_version BIGINT NOT NULL,
    effective_from DATETIME(6) NOT NULL,
    effective_to DATETIME(6),
    created_at DATETIME(6) NOT NULL,
    placement_code VARBINARY(255) NOT NULL,
    param_name VARBINARY(255) NOT NULL,
    position BIGINT NOT NULL,
    value_template LONGTEXT NOT NULL,
    PRIMARY KEY (id),
    UNIQUE KEY uk_api_param_map (provenance_code, registry_version, endpoint_name, placement_code, param_name),
    KEY idx_api_param_map_at (provenance_code, endpoint_name, effective_from)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

-- What the source can do with a field of the query language.
CREATE TABLE IF NOT EXISTS reg_prov_expr_capability (
    id BIGINT NOT NULL,
    provenance_code VARBINARY(64) NOT NULL,
    endpoint_name VARBINARY(128) NOT NULL DEFAULT '',
    registry_version BIGINT NOT NULL,
    effective_from DATETIME(6) NOT NULL,
    effective_to DATETIME(6),
    created_at DATETIME(6) NOT NULL,
    field_name VARBINARY(255) NOT NULL,
    operator_codes LONGTEXT,
    is_unsupported BIGINT CHECK (is_unsupported IN (0, 1)),
    note LONGTEXT,
    PRIMARY KEY (id),
    UNIQUE KEY uk_expr_capability (provenance_code, registry_version, endpoint_name, field_name),
    KEY idx_expr_capability_at (provenance_code, endpoint_name, effective_from)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

-- How a field of the query language is written for the source.
CREATE TABLE IF NOT EXISTS reg_prov_expr_render_rule (
    id BIGINT NOT NULL,
    provenance_code VARBINARY(64) NOT NULL,
    endpoint_name VARBINARY(128) NOT NULL DEFAULT '',
    registry_version BIGINT NOT NULL,
    effective_from DATETIME(6) NOT NULL,
    effective_to DATETIME(6),
    created_at DATETIME(6) NOT NULL,
    field_name VARBINARY(255) NOT NULL,
    param_name LONGTEXT,
    render_template LONGTEXT,
    PRIMARY KEY (id),
    UNIQUE KEY uk_expr_render_rule (provenance_code, registry_version, endpoint_name, field_name),
    KEY idx_expr_render_rule_at (provenance_code, endpoint_name, effective_from)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

-- Fields by kind: those that can be searched for, paths into answers, mapped fields of records.
CREATE TABLE IF NOT EXISTS reg_expr_field_dict (
    id BIGINT NOT NULL,
    provenance_code VARBINARY(64) NOT NULL,
    endpoint_name VARBINARY(128) NOT NULL DEFAULT '',
    registry_version BIGINT NOT NULL,
    effective_from DATETIME(6) NOT NULL,
    effective_to DATETIME(6),
    created_at DATETIME(6) NOT NULL,
    field_kind_code VARBINARY(255) NOT NULL,
    field_name VARBINARY(255) NOT NULL,
    position BIGINT NOT NULL,
    path LONGTEXT,
    is_required BIGINT CHECK (is_required IN (0, 1)),
    PRIMARY KEY (id),
    UNIQUE KEY uk_expr_field_dict (provenance_code, registry_version, endpoint_name, field_kind_code, field_name, position),
    KEY idx_expr_field_dict_at (provenance_code, endpoint_name, effective_from)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;
