-- The registry: versions of source definitions and the dictionaries of their codes.
--
-- A version is never edited: a change adds a version and ends the one before it (`effective_to`). The ends of a
-- version are native times; other times and lengths of time are ISO-8601 text; flags are 0 and 1; lists and maps are JSON text.
-- A null means that the level says nothing and the one below it holds.

CREATE TABLE sys_dict_type (
    type_code TEXT COLLATE "C" NOT NULL,
    type_name TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (type_code)
);

CREATE TABLE sys_dict_item (
    type_code TEXT COLLATE "C" NOT NULL,
    item_code TEXT COLLATE "C" NOT NULL,
    item_name TEXT COLLATE "C" NOT NULL,
    display_order BIGINT NOT NULL,
    PRIMARY KEY (type_code, item_code)
);

-- What people may write for a code; compared without regard to case.
CREATE TABLE sys_dict_item_alias (
    type_code TEXT COLLATE "C" NOT NULL,
    item_code TEXT COLLATE "C" NOT NULL,
    alias TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (type_code, alias)
);

-- One version of one source. `definition` is the YAML as written.
CREATE TABLE reg_provenance (
    id BIGINT NOT NULL,
    provenance_code TEXT COLLATE "C" NOT NULL,
    endpoint_name TEXT COLLATE "C" NOT NULL DEFAULT '',
    registry_version BIGINT NOT NULL,
    effective_from TIMESTAMPTZ NOT NULL,
    effective_to TIMESTAMPTZ,
    created_at TIMESTAMPTZ NOT NULL,
    channel TEXT COLLATE "C" NOT NULL,
    definition TEXT COLLATE "C" NOT NULL,
    definition_hash TEXT COLLATE "C" NOT NULL,
    actor TEXT COLLATE "C" NOT NULL,
    remark TEXT COLLATE "C" NOT NULL DEFAULT '',
    provenance_name TEXT COLLATE "C" NOT NULL,
    description TEXT COLLATE "C",
    contact TEXT COLLATE "C",
    contact_required BIGINT CHECK (contact_required IN (0, 1)),
    user_agent TEXT COLLATE "C",
    settings TEXT COLLATE "C",
    blackbox_code TEXT COLLATE "C",
    quarantine_share_max TEXT COLLATE "C",
    quarantine_records_max BIGINT,
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX uk_provenance ON reg_provenance (provenance_code, registry_version, endpoint_name);
CREATE INDEX idx_provenance_at ON reg_provenance (provenance_code, endpoint_name, effective_from);

-- Endpoints: use, request line, format of the answer.
CREATE TABLE reg_prov_endpoint_def (
    id BIGINT NOT NULL,
    provenance_code TEXT COLLATE "C" NOT NULL,
    endpoint_name TEXT COLLATE "C" NOT NULL DEFAULT '',
    registry_version BIGINT NOT NULL,
    effective_from TIMESTAMPTZ NOT NULL,
    effective_to TIMESTAMPTZ,
    created_at TIMESTAMPTZ NOT NULL,
    position BIGINT NOT NULL,
    role_code TEXT COLLATE "C",
    entity TEXT COLLATE "C",
    auth_code TEXT COLLATE "C",
    credential_name TEXT COLLATE "C",
    priority BIGINT,
    namespace_scope_code TEXT COLLATE "C",
    blackbox_code TEXT COLLATE "C",
    timeout TEXT COLLATE "C",
    http_method_code TEXT COLLATE "C",
    path_template TEXT COLLATE "C" NOT NULL,
    body_json TEXT COLLATE "C",
    format_code TEXT COLLATE "C",
    xml_namespaces TEXT COLLATE "C",
    time_kind_code TEXT COLLATE "C",
    time_zone TEXT COLLATE "C",
    total_tolerance TEXT COLLATE "C",
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX uk_endpoint_def ON reg_prov_endpoint_def (provenance_code, registry_version, endpoint_name);
CREATE INDEX idx_endpoint_def_at ON reg_prov_endpoint_def (provenance_code, endpoint_name, effective_from);

-- Transport manners, of the source or of one endpoint.
CREATE TABLE reg_prov_http_cfg (
    id BIGINT NOT NULL,
    provenance_code TEXT COLLATE "C" NOT NULL,
    endpoint_name TEXT COLLATE "C" NOT NULL DEFAULT '',
    registry_version BIGINT NOT NULL,
    effective_from TIMESTAMPTZ NOT NULL,
    effective_to TIMESTAMPTZ,
    created_at TIMESTAMPTZ NOT NULL,
    base_url TEXT COLLATE "C",
    allow_http BIGINT CHECK (allow_http IN (0, 1)),
    allow_hosts TEXT COLLATE "C",
    connect_timeout TEXT COLLATE "C",
    read_timeout TEXT COLLATE "C",
    total_timeout TEXT COLLATE "C",
    redirects_max BIGINT,
    proxy_url TEXT COLLATE "C",
    body_bytes_max BIGINT,
    ratio_max BIGINT,
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX uk_http_cfg ON reg_prov_http_cfg (provenance_code, registry_version, endpoint_name);
CREATE INDEX idx_http_cfg_at ON reg_prov_http_cfg (provenance_code, endpoint_name, effective_from);

-- Credentials. They name secrets and never hold them.
CREATE TABLE reg_prov_credential (
    id BIGINT NOT NULL,
    provenance_code TEXT COLLATE "C" NOT NULL,
    endpoint_name TEXT COLLATE "C" NOT NULL DEFAULT '',
    registry_version BIGINT NOT NULL,
    effective_from TIMESTAMPTZ NOT NULL,
    effective_to TIMESTAMPTZ,
    created_at TIMESTAMPTZ NOT NULL,
    credential_name TEXT COLLATE "C" NOT NULL,
    position BIGINT NOT NULL,
    auth_type_code TEXT COLLATE "C" NOT NULL,
    placement_code TEXT COLLATE "C",
    param_name TEXT COLLATE "C",
    secret_prefix TEXT COLLATE "C",
    secret_ref TEXT COLLATE "C",
    user_ref TEXT COLLATE "C",
    password_ref TEXT COLLATE "C",
    token_url TEXT COLLATE "C",
    client_id_ref TEXT COLLATE "C",
    client_secret_ref TEXT COLLATE "C",
    oauth_scope TEXT COLLATE "C",
    refresh_before TEXT COLLATE "C",
    signing_hook_code TEXT COLLATE "C",
    hook_options TEXT COLLATE "C",
    is_optional BIGINT CHECK (is_optional IN (0, 1)),
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX uk_credential ON reg_prov_credential (provenance_code, registry_version, credential_name);
CREATE INDEX idx_credential_at ON reg_prov_credential (provenance_code, endpoint_name, effective_from);

-- How pages follow each other.
CREATE TABLE reg_prov_pagination_cfg (
    id BIGINT NOT NULL,
    provenance_code TEXT COLLATE "C" NOT NULL,
    endpoint_name TEXT COLLATE "C" NOT NULL DEFAULT '',
    registry_version BIGINT NOT NULL,
    effective_from TIMESTAMPTZ NOT NULL,
    effective_to TIMESTAMPTZ,
    created_at TIMESTAMPTZ NOT NULL,
    pagination_type_code TEXT COLLATE "C",
    page_size BIGINT,
    page_size_max BIGINT,
    page_max BIGINT,
    page_base BIGINT,
    initial_token TEXT COLLATE "C",
    next_path TEXT COLLATE "C",
    is_replayable BIGINT CHECK (is_replayable IN (0, 1)),
    token_ttl TEXT COLLATE "C",
    stop_codes TEXT COLLATE "C",
    result_cap BIGINT,
    slice_records_max BIGINT,
    overlap_items BIGINT,
    is_backward BIGINT CHECK (is_backward IN (0, 1)),
    tail_probe BIGINT CHECK (tail_probe IN (0, 1)),
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX uk_pagination_cfg ON reg_prov_pagination_cfg (provenance_code, registry_version, endpoint_name);
CREATE INDEX idx_pagination_cfg_at ON reg_prov_pagination_cfg (provenance_code, endpoint_name, effective_from);

-- How time is cut and how the source understands it.
CREATE TABLE reg_prov_window_offset_cfg (
    id BIGINT NOT NULL,
    provenance_code TEXT COLLATE "C" NOT NULL,
    endpoint_name TEXT COLLATE "C" NOT NULL DEFAULT '',
    registry_version BIGINT NOT NULL,
    effective_from TIMESTAMPTZ NOT NULL,
    effective_to TIMESTAMPTZ,
    created_at TIMESTAMPTZ NOT NULL,
    updated_since BIGINT CHECK (updated_since IN (0, 1)),
    watermark_key TEXT COLLATE "C",
    origin_at TEXT COLLATE "C",
    boundary_kind_code TEXT COLLATE "C",
    boundary_grain TEXT COLLATE "C",
    boundary_zone TEXT COLLATE "C",
    boundary_fractional BIGINT CHECK (boundary_fractional IN (0, 1)),
    align_code TEXT COLLATE "C",
    window_min TEXT COLLATE "C",
    window_max TEXT COLLATE "C",
    slice_width TEXT COLLATE "C",
    safety_lag TEXT COLLATE "C",
    lookback TEXT COLLATE "C",
    out_of_range_code TEXT COLLATE "C",
    order_code TEXT COLLATE "C",
    client_filter BIGINT CHECK (client_filter IN (0, 1)),
    as_of BIGINT CHECK (as_of IN (0, 1)),
    second_key_type_code TEXT COLLATE "C",
    second_key_from BIGINT,
    second_key_to BIGINT,
    second_key_buckets BIGINT,
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX uk_window_offset_cfg ON reg_prov_window_offset_cfg (provenance_code, registry_version, endpoint_name);
CREATE INDEX idx_window_offset_cfg_at ON reg_prov_window_offset_cfg (provenance_code, endpoint_name, effective_from);

-- How failed requests are repeated, and what failures mean.
CREATE TABLE reg_prov_retry_cfg (
    id BIGINT NOT NULL,
    provenance_code TEXT COLLATE "C" NOT NULL,
    endpoint_name TEXT COLLATE "C" NOT NULL DEFAULT '',
    registry_version BIGINT NOT NULL,
    effective_from TIMESTAMPTZ NOT NULL,
    effective_to TIMESTAMPTZ,
    created_at TIMESTAMPTZ NOT NULL,
    error_rules TEXT COLLATE "C",
    backoff_first TEXT COLLATE "C",
    backoff_factor TEXT COLLATE "C",
    backoff_longest TEXT COLLATE "C",
    jitter_share TEXT COLLATE "C",
    attempts_max BIGINT,
    retry_statuses TEXT COLLATE "C",
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX uk_retry_cfg ON reg_prov_retry_cfg (provenance_code, registry_version, endpoint_name);
CREATE INDEX idx_retry_cfg_at ON reg_prov_retry_cfg (provenance_code, endpoint_name, effective_from);

-- Limits, of the source, one endpoint or one credential.
CREATE TABLE reg_prov_rate_limit_cfg (
    id BIGINT NOT NULL,
    provenance_code TEXT COLLATE "C" NOT NULL,
    endpoint_name TEXT COLLATE "C" NOT NULL DEFAULT '',
    registry_version BIGINT NOT NULL,
    effective_from TIMESTAMPTZ NOT NULL,
    effective_to TIMESTAMPTZ,
    created_at TIMESTAMPTZ NOT NULL,
    credential_name TEXT COLLATE "C" NOT NULL DEFAULT '',
    requests_per_second BIGINT,
    requests_per_minute BIGINT,
    requests_per_hour BIGINT,
    requests_per_day BIGINT,
    rate_windows TEXT COLLATE "C",
    burst BIGINT,
    concurrency BIGINT,
    key_parts TEXT COLLATE "C",
    respect_headers BIGINT CHECK (respect_headers IN (0, 1)),
    permit_cost BIGINT,
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX uk_rate_limit_cfg ON reg_prov_rate_limit_cfg (provenance_code, registry_version, endpoint_name, credential_name);
CREATE INDEX idx_rate_limit_cfg_at ON reg_prov_rate_limit_cfg (provenance_code, endpoint_name, effective_from);

-- Which endpoint gives records for ids, and how many at once.
CREATE TABLE reg_prov_batching_cfg (
    id BIGINT NOT NULL,
    provenance_code TEXT COLLATE "C" NOT NULL,
    endpoint_name TEXT COLLATE "C" NOT NULL DEFAULT '',
    registry_version BIGINT NOT NULL,
    effective_from TIMESTAMPTZ NOT NULL,
    effective_to TIMESTAMPTZ,
    created_at TIMESTAMPTZ NOT NULL,
    purpose_code TEXT COLLATE "C" NOT NULL,
    detail_endpoint TEXT COLLATE "C" NOT NULL,
    id_batch_size BIGINT NOT NULL,
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX uk_batching_cfg ON reg_prov_batching_cfg (provenance_code, registry_version, endpoint_name, purpose_code);
CREATE INDEX idx_batching_cfg_at ON reg_prov_batching_cfg (provenance_code, endpoint_name, effective_from);

-- Parameters, headers and form fields with their templates.
CREATE TABLE reg_prov_api_param_map (
    id BIGINT NOT NULL,
    provenance_code TEXT COLLATE "C" NOT NULL,
    endpoint_name TEXT COLLATE "C" NOT NULL DEFAULT '',
    registry_version BIGINT NOT NULL,
    effective_from TIMESTAMPTZ NOT NULL,
    effective_to TIMESTAMPTZ,
    created_at TIMESTAMPTZ NOT NULL,
    placement_code TEXT COLLATE "C" NOT NULL,
    param_name TEXT COLLATE "C" NOT NULL,
    position BIGINT NOT NULL,
    value_template TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX uk_api_param_map ON reg_prov_api_param_map (provenance_code, registry_version, endpoint_name, placement_code, param_name);
CREATE INDEX idx_api_param_map_at ON reg_prov_api_param_map (provenance_code, endpoint_name, effective_from);

-- What the source can do with a field of the query language.
CREATE TABLE reg_prov_expr_capability (
    id BIGINT NOT NULL,
    provenance_code TEXT COLLATE "C" NOT NULL,
    endpoint_name TEXT COLLATE "C" NOT NULL DEFAULT '',
    registry_version BIGINT NOT NULL,
    effective_from TIMESTAMPTZ NOT NULL,
    effective_to TIMESTAMPTZ,
    created_at TIMESTAMPTZ NOT NULL,
    field_name TEXT COLLATE "C" NOT NULL,
    operator_codes TEXT COLLATE "C",
    is_unsupported BIGINT CHECK (is_unsupported IN (0, 1)),
    note TEXT COLLATE "C",
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX uk_expr_capability ON reg_prov_expr_capability (provenance_code, registry_version, endpoint_name, field_name);
CREATE INDEX idx_expr_capability_at ON reg_prov_expr_capability (provenance_code, endpoint_name, effective_from);

-- How a field of the query language is written for the source.
CREATE TABLE reg_prov_expr_render_rule (
    id BIGINT NOT NULL,
    provenance_code TEXT COLLATE "C" NOT NULL,
    endpoint_name TEXT COLLATE "C" NOT NULL DEFAULT '',
    registry_version BIGINT NOT NULL,
    effective_from TIMESTAMPTZ NOT NULL,
    effective_to TIMESTAMPTZ,
    created_at TIMESTAMPTZ NOT NULL,
    field_name TEXT COLLATE "C" NOT NULL,
    param_name TEXT COLLATE "C",
    render_template TEXT COLLATE "C",
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX uk_expr_render_rule ON reg_prov_expr_render_rule (provenance_code, registry_version, endpoint_name, field_name);
CREATE INDEX idx_expr_render_rule_at ON reg_prov_expr_render_rule (provenance_code, endpoint_name, effective_from);

-- Fields by kind: those that can be searched for, paths into answers, mapped fields of records.
CREATE TABLE reg_expr_field_dict (
    id BIGINT NOT NULL,
    provenance_code TEXT COLLATE "C" NOT NULL,
    endpoint_name TEXT COLLATE "C" NOT NULL DEFAULT '',
    registry_version BIGINT NOT NULL,
    effective_from TIMESTAMPTZ NOT NULL,
    effective_to TIMESTAMPTZ,
    created_at TIMESTAMPTZ NOT NULL,
    field_kind_code TEXT COLLATE "C" NOT NULL,
    field_name TEXT COLLATE "C" NOT NULL,
    position BIGINT NOT NULL,
    path TEXT COLLATE "C",
    is_required BIGINT CHECK (is_required IN (0, 1)),
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX uk_expr_field_dict ON reg_expr_field_dict (provenance_code, registry_version, endpoint_name, field_kind_code, field_name, position);
CREATE INDEX idx_expr_field_dict_at ON reg_expr_field_dict (provenance_code, endpoint_name, effective_from);
