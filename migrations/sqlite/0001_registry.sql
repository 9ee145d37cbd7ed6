-- The registry: versions of source definitions and the dictionaries of their codes.
--
-- A version is never edited: a change adds a version and ends the one before it (`effective_to`). Times are ISO-8601
-- text with six digits and `Z`; lengths of time are ISO-8601 text; flags are 0 and 1; lists and maps are JSON text.
-- A null means that the level says nothing and the one below it holds.

CREATE TABLE sys_dict_type (
    type_code TEXT PRIMARY KEY,
    type_name TEXT NOT NULL
);

CREATE TABLE sys_dict_item (
    type_code TEXT NOT NULL,
    item_code TEXT NOT NULL,
    item_name TEXT NOT NULL,
    display_order INTEGER NOT NULL,
    PRIMARY KEY (type_code, item_code)
);

-- What people may write for a code; compared without regard to case.
CREATE TABLE sys_dict_item_alias (
    type_code TEXT NOT NULL,
    item_code TEXT NOT NULL,
    alias TEXT NOT NULL,
    PRIMARY KEY (type_code, alias)
);

-- One version of one source. `definition` is the YAML as written.
CREATE TABLE reg_provenance (
    id INTEGER PRIMARY KEY,
    provenance_code TEXT NOT NULL,
    endpoint_name TEXT NOT NULL DEFAULT '',
    registry_version INTEGER NOT NULL,
    effective_from TEXT NOT NULL,
    effective_to TEXT,
    created_at TEXT NOT NULL,
    channel TEXT NOT NULL,
    definition TEXT NOT NULL,
    definition_hash TEXT NOT NULL,
    actor TEXT NOT NULL,
    remark TEXT NOT NULL DEFAULT '',
    provenance_name TEXT NOT NULL,
    description TEXT,
    contact TEXT,
    contact_required INTEGER CHECK (contact_required IN (0, 1)),
    user_agent TEXT,
    settings TEXT,
    blackbox_code TEXT,
    quarantine_share_max TEXT,
    quarantine_records_max INTEGER,
    CONSTRAINT uk_provenance UNIQUE (provenance_code, registry_version, endpoint_name)
);
CREATE INDEX idx_provenance_at ON reg_provenance (provenance_code, endpoint_name, effective_from);

-- Endpoints: use, request line, format of the answer.
CREATE TABLE reg_prov_endpoint_def (
    id INTEGER PRIMARY KEY,
    provenance_code TEXT NOT NULL,
    endpoint_name TEXT NOT NULL DEFAULT '',
    registry_version INTEGER NOT NULL,
    effective_from TEXT NOT NULL,
    effective_to TEXT,
    created_at TEXT NOT NULL,
    position INTEGER NOT NULL,
    role_code TEXT,
    entity TEXT,
    auth_code TEXT,
    credential_name TEXT,
    priority INTEGER,
    namespace_scope_code TEXT,
    blackbox_code TEXT,
    timeout TEXT,
    http_method_code TEXT,
    path_template TEXT NOT NULL,
    body_json TEXT,
    format_code TEXT,
    xml_namespaces TEXT,
    time_kind_code TEXT,
    time_zone TEXT,
    total_tolerance TEXT,
    CONSTRAINT uk_endpoint_def UNIQUE (provenance_code, registry_version, endpoint_name)
);
CREATE INDEX idx_endpoint_def_at ON reg_prov_endpoint_def (provenance_code, endpoint_name, effective_from);

-- Transport manners, of the source or of one endpoint.
CREATE TABLE reg_prov_http_cfg (
    id INTEGER PRIMARY KEY,
    provenance_code TEXT NOT NULL,
    endpoint_name TEXT NOT NULL DEFAULT '',
    registry_version INTEGER NOT NULL,
    effective_from TEXT NOT NULL,
    effective_to TEXT,
    created_at TEXT NOT NULL,
    base_url TEXT,
    allow_http INTEGER CHECK (allow_http IN (0, 1)),
    allow_hosts TEXT,
    connect_timeout TEXT,
    read_timeout TEXT,
    total_timeout TEXT,
    redirects_max INTEGER,
    proxy_url TEXT,
    body_bytes_max INTEGER,
    ratio_max INTEGER,
    CONSTRAINT uk_http_cfg UNIQUE (provenance_code, registry_version, endpoint_name)
);
CREATE INDEX idx_http_cfg_at ON reg_prov_http_cfg (provenance_code, endpoint_name, effective_from);

-- Credentials. They name secrets and never hold them.
CREATE TABLE reg_prov_credential (
    id INTEGER PRIMARY KEY,
    provenance_code TEXT NOT NULL,
    endpoint_name TEXT NOT NULL DEFAULT '',
    registry_version INTEGER NOT NULL,
    effective_from TEXT NOT NULL,
    effective_to TEXT,
    created_at TEXT NOT NULL,
    credential_name TEXT NOT NULL,
    position INTEGER NOT NULL,
    auth_type_code TEXT NOT NULL,
    placement_code TEXT,
    param_name TEXT,
    secret_prefix TEXT,
    secret_ref TEXT,
    user_ref TEXT,
    password_ref TEXT,
    token_url TEXT,
    client_id_ref TEXT,
    client_secret_ref TEXT,
    oauth_scope TEXT,
    refresh_before TEXT,
    signing_hook_code TEXT,
    hook_options TEXT,
    is_optional INTEGER CHECK (is_optional IN (0, 1)),
    CONSTRAINT uk_credential UNIQUE (provenance_code, registry_version, credential_name)
);
CREATE INDEX idx_credential_at ON reg_prov_credential (provenance_code, endpoint_name, effective_from);

-- How pages follow each other.
CREATE TABLE reg_prov_pagination_cfg (
    id INTEGER PRIMARY KEY,
    provenance_code TEXT NOT NULL,
    endpoint_name TEXT NOT NULL DEFAULT '',
    registry_version INTEGER NOT NULL,
    effective_from TEXT NOT NULL,
    effective_to TEXT,
    created_at TEXT NOT NULL,
    pagination_type_code TEXT,
    page_size INTEGER,
    page_size_max INTEGER,
    page_max INTEGER,
    page_base INTEGER,
    initial_token TEXT,
    next_path TEXT,
    is_replayable INTEGER CHECK (is_replayable IN (0, 1)),
    token_ttl TEXT,
    stop_codes TEXT,
    result_cap INTEGER,
    slice_records_max INTEGER,
    overlap_items INTEGER,
    is_backward INTEGER CHECK (is_backward IN (0, 1)),
    tail_probe INTEGER CHECK (tail_probe IN (0, 1)),
    CONSTRAINT uk_pagination_cfg UNIQUE (provenance_code, registry_version, endpoint_name)
);
CREATE INDEX idx_pagination_cfg_at ON reg_prov_pagination_cfg (provenance_code, endpoint_name, effective_from);

-- How time is cut and how the source understands it.
CREATE TABLE reg_prov_window_offset_cfg (
    id INTEGER PRIMARY KEY,
    provenance_code TEXT NOT NULL,
    endpoint_name TEXT NOT NULL DEFAULT '',
    registry_version INTEGER NOT NULL,
    effective_from TEXT NOT NULL,
    effective_to TEXT,
    created_at TEXT NOT NULL,
    updated_since INTEGER CHECK (updated_since IN (0, 1)),
    watermark_key TEXT,
    origin_at TEXT,
    boundary_kind_code TEXT,
    boundary_grain TEXT,
    boundary_zone TEXT,
    boundary_fractional INTEGER CHECK (boundary_fractional IN (0, 1)),
    align_code TEXT,
    window_min TEXT,
    window_max TEXT,
    slice_width TEXT,
    safety_lag TEXT,
    lookback TEXT,
    out_of_range_code TEXT,
    order_code TEXT,
    client_filter INTEGER CHECK (client_filter IN (0, 1)),
    as_of INTEGER CHECK (as_of IN (0, 1)),
    second_key_type_code TEXT,
    second_key_from INTEGER,
    second_key_to INTEGER,
    second_key_buckets INTEGER,
    CONSTRAINT uk_window_offset_cfg UNIQUE (provenance_code, registry_version, endpoint_name)
);
CREATE INDEX idx_window_offset_cfg_at ON reg_prov_window_offset_cfg (provenance_code, endpoint_name, effective_from);

-- How failed requests are repeated, and what failures mean.
CREATE TABLE reg_prov_retry_cfg (
    id INTEGER PRIMARY KEY,
    provenance_code TEXT NOT NULL,
    endpoint_name TEXT NOT NULL DEFAULT '',
    registry_version INTEGER NOT NULL,
    effective_from TEXT NOT NULL,
    effective_to TEXT,
    created_at TEXT NOT NULL,
    error_rules TEXT,
    backoff_first TEXT,
    backoff_factor TEXT,
    backoff_longest TEXT,
    jitter_share TEXT,
    attempts_max INTEGER,
    retry_statuses TEXT,
    CONSTRAINT uk_retry_cfg UNIQUE (provenance_code, registry_version, endpoint_name)
);
CREATE INDEX idx_retry_cfg_at ON reg_prov_retry_cfg (provenance_code, endpoint_name, effective_from);

-- Limits, of the source, one endpoint or one credential.
CREATE TABLE reg_prov_rate_limit_cfg (
    id INTEGER PRIMARY KEY,
    provenance_code TEXT NOT NULL,
    endpoint_name TEXT NOT NULL DEFAULT '',
    registry_version INTEGER NOT NULL,
    effective_from TEXT NOT NULL,
    effective_to TEXT,
    created_at TEXT NOT NULL,
    credential_name TEXT NOT NULL DEFAULT '',
    requests_per_second INTEGER,
    requests_per_minute INTEGER,
    requests_per_hour INTEGER,
    requests_per_day INTEGER,
    rate_windows TEXT,
    burst INTEGER,
    concurrency INTEGER,
    key_parts TEXT,
    respect_headers INTEGER CHECK (respect_headers IN (0, 1)),
    permit_cost INTEGER,
    CONSTRAINT uk_rate_limit_cfg UNIQUE (provenance_code, registry_version, endpoint_name, credential_name)
);
CREATE INDEX idx_rate_limit_cfg_at ON reg_prov_rate_limit_cfg (provenance_code, endpoint_name, effective_from);

-- Which endpoint gives records for ids, and how many at once.
CREATE TABLE reg_prov_batching_cfg (
    id INTEGER PRIMARY KEY,
    provenance_code TEXT NOT NULL,
    endpoint_name TEXT NOT NULL DEFAULT '',
    registry_version INTEGER NOT NULL,
    effective_from TEXT NOT NULL,
    effective_to TEXT,
    created_at TEXT NOT NULL,
    purpose_code TEXT NOT NULL,
    detail_endpoint TEXT NOT NULL,
    id_batch_size INTEGER NOT NULL,
    CONSTRAINT uk_batching_cfg UNIQUE (provenance_code, registry_version, endpoint_name, purpose_code)
);
CREATE INDEX idx_batching_cfg_at ON reg_prov_batching_cfg (provenance_code, endpoint_name, effective_from);

-- Parameters, headers and form fields with their templates.
CREATE TABLE reg_prov_api_param_map (
    id INTEGER PRIMARY KEY,
    provenance_code TEXT NOT NULL,
    endpoint_name TEXT NOT NULL DEFAULT '',
    registry_version INTEGER NOT NULL,
    effective_from TEXT NOT NULL,
    effective_to TEXT,
    created_at TEXT NOT NULL,
    placement_code TEXT NOT NULL,
    param_name TEXT NOT NULL,
    position INTEGER NOT NULL,
    value_template TEXT NOT NULL,
    CONSTRAINT uk_api_param_map UNIQUE (provenance_code, registry_version, endpoint_name, placement_code, param_name)
);
CREATE INDEX idx_api_param_map_at ON reg_prov_api_param_map (provenance_code, endpoint_name, effective_from);

-- What the source can do with a field of the query language.
CREATE TABLE reg_prov_expr_capability (
    id INTEGER PRIMARY KEY,
    provenance_code TEXT NOT NULL,
    endpoint_name TEXT NOT NULL DEFAULT '',
    registry_version INTEGER NOT NULL,
    effective_from TEXT NOT NULL,
    effective_to TEXT,
    created_at TEXT NOT NULL,
    field_name TEXT NOT NULL,
    operator_codes TEXT,
    is_unsupported INTEGER CHECK (is_unsupported IN (0, 1)),
    note TEXT,
    CONSTRAINT uk_expr_capability UNIQUE (provenance_code, registry_version, endpoint_name, field_name)
);
CREATE INDEX idx_expr_capability_at ON reg_prov_expr_capability (provenance_code, endpoint_name, effective_from);

-- How a field of the query language is written for the source.
CREATE TABLE reg_prov_expr_render_rule (
    id INTEGER PRIMARY KEY,
    provenance_code TEXT NOT NULL,
    endpoint_name TEXT NOT NULL DEFAULT '',
    registry_version INTEGER NOT NULL,
    effective_from TEXT NOT NULL,
    effective_to TEXT,
    created_at TEXT NOT NULL,
    field_name TEXT NOT NULL,
    param_name TEXT,
    render_template TEXT,
    CONSTRAINT uk_expr_render_rule UNIQUE (provenance_code, registry_version, endpoint_name, field_name)
);
CREATE INDEX idx_expr_render_rule_at ON reg_prov_expr_render_rule (provenance_code, endpoint_name, effective_from);

-- Fields by kind: those that can be searched for, paths into answers, mapped fields of records.
CREATE TABLE reg_expr_field_dict (
    id INTEGER PRIMARY KEY,
    provenance_code TEXT NOT NULL,
    endpoint_name TEXT NOT NULL DEFAULT '',
    registry_version INTEGER NOT NULL,
    effective_from TEXT NOT NULL,
    effective_to TEXT,
    created_at TEXT NOT NULL,
    field_kind_code TEXT NOT NULL,
    field_name TEXT NOT NULL,
    position INTEGER NOT NULL,
    path TEXT,
    is_required INTEGER CHECK (is_required IN (0, 1)),
    CONSTRAINT uk_expr_field_dict UNIQUE (provenance_code, registry_version, endpoint_name, field_kind_code, field_name, position)
);
CREATE INDEX idx_expr_field_dict_at ON reg_expr_field_dict (provenance_code, endpoint_name, effective_from);
