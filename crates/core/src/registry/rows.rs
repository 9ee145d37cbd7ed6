//! A definition as rows of the thirteen `reg_*` tables, and back.
//!
//! `from_rows(to_rows(definition))` is the same definition: nothing that a definition can say is kept anywhere but
//! in columns. Rows of the whole source carry an empty endpoint name.

use std::collections::BTreeMap;

use crate::ports::{Cell, RegistryRow};

use super::cells::{self, BadRow, Columns};
use super::definition::{Definition, Map, Places, Value};
use super::endpoint_keys::{BODY, DETAIL, ENDPOINT, ERROR_RULE, FIELD, PAGINATION, REQUEST, RESPONSE, UPDATE, WINDOW};
use super::grammar::{Block, Kind, Stored};
use super::source_keys::{CREDENTIAL, HTTP, QUERY, QUERY_SYNTAX, RATE, RETRY, SOURCE};

pub const PROVENANCE: &str = "reg_provenance";
pub const ENDPOINT_DEF: &str = "reg_prov_endpoint_def";
pub const HTTP_CFG: &str = "reg_prov_http_cfg";
pub const CREDENTIALS: &str = "reg_prov_credential";
pub const PAGINATION_CFG: &str = "reg_prov_pagination_cfg";
pub const WINDOW_CFG: &str = "reg_prov_window_offset_cfg";
pub const RETRY_CFG: &str = "reg_prov_retry_cfg";
pub const RATE_CFG: &str = "reg_prov_rate_limit_cfg";
pub const BATCHING_CFG: &str = "reg_prov_batching_cfg";
/// Why records are asked for by id: the code, the key and its block.
const BY_ID: [(&str, &str, &Block); 2] = [("DETAIL", "detail", &DETAIL), ("UPDATE", "update", &UPDATE)];
pub const PARAM_MAP: &str = "reg_prov_api_param_map";
pub const CAPABILITY: &str = "reg_prov_expr_capability";
pub const RENDER_RULE: &str = "reg_prov_expr_render_rule";
pub const FIELD_DICT: &str = "reg_expr_field_dict";

/// Columns of [`QUERY`] that say what a field can do; the others say how it is written.
const CAPABILITY_COLUMNS: [&str; 3] = ["operator_codes", "is_unsupported", "note"];
/// Name of the render rule that holds for the whole source.
const EVERY_FIELD: &str = "*";
const SYNTAX: Kind = Kind::Block(&QUERY_SYNTAX);
const ERROR_RULES: Kind = Kind::List(&Kind::Block(&ERROR_RULE));

pub fn to_rows(definition: &Definition) -> Vec<RegistryRow> {
    let root = &definition.root;
    let mut rows = Rows(Vec::new());
    rows.source(root);
    for (position, (name, credential)) in (0..).zip(definition.credentials()) {
        let keys = [("credential_name", Cell::Text(name.to_owned())), ("position", Cell::Int(position))];
        rows.add(CREDENTIALS, "", keys, &[(&CREDENTIAL, Some(credential))]);
        rows.rate("", name, credential.map("rate"));
    }
    for (position, (name, endpoint)) in (0..).zip(definition.endpoints()) {
        rows.endpoint(name, position, endpoint);
    }
    if let Some(syntax) = root.get("query_syntax") {
        rows.query_syntax(syntax);
    }
    for (position, (name, field)) in (0..).zip(root.map("queries").into_iter().flat_map(Map::blocks)) {
        rows.query_field(name, position, field);
    }
    rows.0
}

struct Rows(Vec<RegistryRow>);

impl Rows {
    fn add<const N: usize>(
        &mut self,
        table: &str,
        endpoint: &str,
        keys: [(&str, Cell); N],
        blocks: &[(&'static Block, Option<&Map>)],
    ) {
        let mut columns: Columns = keys.into_iter().map(|(column, cell)| (column.to_owned(), cell)).collect();
        for (block, map) in blocks {
            cells::write(&mut columns, block, *map);
        }
        self.0.push(RegistryRow { table: table.to_owned(), endpoint: endpoint.to_owned(), columns });
    }

    fn source(&mut self, root: &Map) {
        self.add(PROVENANCE, "", [], &[(&SOURCE, Some(root))]);
        let base_url = root.text("base_url").map_or(Cell::Null, |url| Cell::Text(url.to_owned()));
        self.add(HTTP_CFG, "", [("base_url", base_url)], &[(&HTTP, root.map("http"))]);
        self.rate("", "", root.map("rate"));
        let defaults = root.map("defaults").cloned().unwrap_or_default();
        self.retry("", root.map("retry"), defaults.get("errors"));
        self.cut("", &defaults);
        if let Some(request) = defaults.map("request") {
            self.params("", request);
        }
    }

    fn endpoint(&mut self, name: &str, position: i64, endpoint: &Map) {
        let (request, response) = (endpoint.map("request"), endpoint.map("response"));
        let blocks = [(&ENDPOINT, Some(endpoint)), (&REQUEST, request), (&RESPONSE, response)];
        self.add(ENDPOINT_DEF, name, [("position", Cell::Int(position))], &blocks);
        if let Some(http) = endpoint.map("http") {
            self.add(HTTP_CFG, name, [("base_url", Cell::Null)], &[(&HTTP, Some(http))]);
        }
        self.rate(name, "", endpoint.map("rate"));
        self.retry(name, endpoint.map("retry"), endpoint.get("errors"));
        self.cut(name, endpoint);
        for (purpose, key, block) in BY_ID {
            if let Some(map) = endpoint.map(key) {
                self.add(BATCHING_CFG, name, [("purpose_code", Cell::Text(purpose.into()))], &[(block, Some(map))]);
            }
        }
        if let Some(request) = request {
            self.params(name, request);
        }
        if let Some(response) = response {
            self.paths(name, response);
        }
        for (position, (field, map)) in (0..).zip(endpoint.map("fields").into_iter().flat_map(Map::blocks)) {
            self.add(FIELD_DICT, name, field_keys("RECORD_FIELD", field, position), &[(&FIELD, Some(map))]);
        }
    }

    fn rate(&mut self, endpoint: &str, credential: &str, rate: Option<&Map>) {
        if let Some(rate) = rate {
            let keys = [("credential_name", Cell::Text(credential.to_owned()))];
            self.add(RATE_CFG, endpoint, keys, &[(&RATE, Some(rate))]);
        }
    }

    fn retry(&mut self, endpoint: &str, retry: Option<&Map>, errors: Option<&Value>) {
        if retry.is_some() || errors.is_some() {
            let rules = errors.map_or(Cell::Null, |rules| cells::to_cell(&ERROR_RULES, rules));
            self.add(RETRY_CFG, endpoint, [("error_rules", rules)], &[(&RETRY, retry)]);
        }
    }

    /// How pages and time are cut, of an endpoint or of the source's defaults.
    fn cut(&mut self, endpoint: &str, of: &Map) {
        if let Some(pagination) = of.map("pagination") {
            self.add(PAGINATION_CFG, endpoint, [], &[(&PAGINATION, Some(pagination))]);
        }
        if let Some(window) = of.map("window") {
            self.add(WINDOW_CFG, endpoint, [], &[(&WINDOW, Some(window))]);
        }
    }

    fn params(&mut self, endpoint: &str, request: &Map) {
        let form = request.map("body").and_then(|body| body.map("form"));
        let parts = [("QUERY", request.map("query")), ("HEADER", request.map("headers")), ("BODY", form)];
        for (placement, table) in parts {
            for (position, (name, value)) in (0..).zip(table.into_iter().flat_map(Map::iter)) {
                let keys = [
                    ("placement_code", Cell::Text(placement.to_owned())),
                    ("param_name", Cell::Text(name.to_owned())),
                    ("position", Cell::Int(position)),
                    ("value_template", cells::to_cell(&Kind::Template, value)),
                ];
                self.add(PARAM_MAP, endpoint, keys, &[]);
            }
        }
    }

    fn paths(&mut self, endpoint: &str, response: &Map) {
        for key in RESPONSE.keys.iter().filter(|key| key.stored == Stored::Paths) {
            let list = match response.get(key.name) {
                Some(Value::List(items)) => items.as_slice(),
                Some(single) => std::slice::from_ref(single),
                None => &[],
            };
            for (position, path) in (0..).zip(list) {
                let field = Map::from_iter([("path".to_owned(), path.clone())]);
                let keys = field_keys("RESPONSE_PATH", key.name, position);
                self.add(FIELD_DICT, endpoint, keys, &[(&FIELD, Some(&field))]);
            }
        }
    }

    fn query_syntax(&mut self, syntax: &Value) {
        let keys = [
            ("field_name", Cell::Text(EVERY_FIELD.to_owned())),
            ("param_name", Cell::Null),
            ("render_template", cells::to_cell(&SYNTAX, syntax)),
        ];
        self.add(RENDER_RULE, "", keys, &[]);
    }

    fn query_field(&mut self, name: &str, position: i64, field: &Map) {
        self.add(FIELD_DICT, "", field_keys("QUERY_FIELD", name, position), &[(&FIELD, None)]);
        let mut columns = Columns::new();
        cells::write(&mut columns, &QUERY, Some(field));
        let (mut can, mut render): (Columns, Columns) =
            columns.into_iter().partition(|(column, _)| CAPABILITY_COLUMNS.contains(&column.as_str()));
        for (table, columns) in [(CAPABILITY, &mut can), (RENDER_RULE, &mut render)] {
            columns.insert("field_name".into(), Cell::Text(name.to_owned()));
            let row = RegistryRow { table: table.into(), endpoint: String::new(), columns: std::mem::take(columns) };
            self.0.push(row);
        }
    }
}

fn field_keys(kind: &str, name: &str, position: i64) -> [(&'static str, Cell); 3] {
    let text = |text: &str| Cell::Text(text.to_owned());
    [("field_kind_code", text(kind)), ("field_name", text(name)), ("position", Cell::Int(position))]
}

/// The definition that `source`'s rows hold. It knows no places; see [`Definition::with_places_of`].
pub fn from_rows(source: &str, rows: &[RegistryRow]) -> Result<Definition, BadRow> {
    let reader = Reader { rows };
    let mut root = reader.block(PROVENANCE, "", &SOURCE)?.ok_or_else(|| cells::bad(PROVENANCE, "id", "no row"))?;
    root.push("source", Value::Text(source.to_owned()));
    if let Some(row) = reader.one(HTTP_CFG, "") {
        root.push("base_url", Value::Text(cells::text(&row.columns, HTTP_CFG, "base_url")?));
    }
    for (key, table, block) in [("http", HTTP_CFG, &HTTP), ("retry", RETRY_CFG, &RETRY)] {
        root.push(key, Value::Map(reader.block(table, "", block)?.unwrap_or_default()));
    }
    root.push("rate", Value::Map(reader.rate("", "")?));
    root.push("credentials", Value::Map(reader.credentials()?));
    root.push("defaults", Value::Map(reader.defaults()?));
    if let Some(syntax) = reader.query_syntax()? {
        root.push("query_syntax", syntax);
    }
    root.push("queries", Value::Map(reader.queries()?));
    let mut endpoints = Map::default();
    for row in reader.sorted(ENDPOINT_DEF, |_| true) {
        endpoints.push(&row.endpoint, Value::Map(reader.endpoint(&row.endpoint, &row.columns)?));
    }
    root.push("endpoints", Value::Map(endpoints));
    let places = Places { file: format!("registry:{source}"), ..Places::default() };
    Ok(Definition { root: root.sorted_by(&SOURCE), places })
}

struct Reader<'a> {
    rows: &'a [RegistryRow],
}

impl<'a> Reader<'a> {
    fn sorted(&self, table: &str, wanted: impl Fn(&RegistryRow) -> bool) -> Vec<&'a RegistryRow> {
        let mut rows: Vec<_> = self.rows.iter().filter(|row| row.table == table && wanted(row)).collect();
        rows.sort_by_key(|row| cells::position(&row.columns));
        rows
    }

    fn one(&self, table: &str, endpoint: &str) -> Option<&'a RegistryRow> {
        self.rows.iter().find(|row| row.table == table && row.endpoint == endpoint)
    }

    fn block(&self, table: &str, endpoint: &str, block: &'static Block) -> Result<Option<Map>, BadRow> {
        self.one(table, endpoint).map(|row| cells::read(&row.columns, block, table)).transpose()
    }

    fn rate(&self, endpoint: &str, credential: &str) -> Result<Map, BadRow> {
        let named = Cell::Text(credential.to_owned());
        let wanted = |row: &RegistryRow| row.endpoint == endpoint && row.columns.get("credential_name") == Some(&named);
        match self.sorted(RATE_CFG, wanted).first() {
            Some(row) => cells::read(&row.columns, &RATE, RATE_CFG),
            None => Ok(Map::default()),
        }
    }

    fn errors(&self, endpoint: &str) -> Result<Option<Value>, BadRow> {
        let Some(Cell::Text(text)) = self.one(RETRY_CFG, endpoint).and_then(|row| row.columns.get("error_rules"))
        else {
            return Ok(None);
        };
        let rules = serde_json::from_str(text).ok().and_then(|json| Value::from_json(&ERROR_RULES, &json));
        rules.map(Some).ok_or_else(|| cells::bad(RETRY_CFG, "error_rules", "not a list of rules"))
    }

    fn credentials(&self) -> Result<Map, BadRow> {
        let mut credentials = Map::default();
        for row in self.sorted(CREDENTIALS, |_| true) {
            let name = cells::text(&row.columns, CREDENTIALS, "credential_name")?;
            let mut credential = cells::read(&row.columns, &CREDENTIAL, CREDENTIALS)?;
            credential.push("rate", Value::Map(self.rate("", &name)?));
            credentials.push(name, Value::Map(credential));
        }
        Ok(credentials)
    }

    fn defaults(&self) -> Result<Map, BadRow> {
        let mut defaults = Map::default();
        let mut request = Map::default();
        request.push("query", Value::Map(self.params("", "QUERY")?));
        request.push("headers", Value::Map(self.params("", "HEADER")?));
        defaults.push("request", Value::Map(request));
        self.cut("", &mut defaults)?;
        if let Some(errors) = self.errors("")? {
            defaults.push("errors", errors);
        }
        Ok(defaults)
    }

    fn cut(&self, endpoint: &str, into: &mut Map) -> Result<(), BadRow> {
        for (key, table, block) in [("pagination", PAGINATION_CFG, &PAGINATION), ("window", WINDOW_CFG, &WINDOW)] {
            into.push(key, Value::Map(self.block(table, endpoint, block)?.unwrap_or_default()));
        }
        Ok(())
    }

    fn params(&self, endpoint: &str, placement: &str) -> Result<Map, BadRow> {
        let placed = Cell::Text(placement.to_owned());
        let wanted = |row: &RegistryRow| row.endpoint == endpoint && row.columns.get("placement_code") == Some(&placed);
        let mut params = Map::default();
        for row in self.sorted(PARAM_MAP, wanted) {
            let name = cells::text(&row.columns, PARAM_MAP, "param_name")?;
            params.push(name, Value::Text(cells::text(&row.columns, PARAM_MAP, "value_template")?));
        }
        Ok(params)
    }

    fn fields(&self, endpoint: &str, kind: &str) -> Vec<&'a RegistryRow> {
        let kind = Cell::Text(kind.to_owned());
        self.sorted(FIELD_DICT, |row| row.endpoint == endpoint && row.columns.get("field_kind_code") == Some(&kind))
    }

    fn endpoint(&self, name: &str, columns: &Columns) -> Result<Map, BadRow> {
        let mut endpoint = cells::read(columns, &ENDPOINT, ENDPOINT_DEF)?;
        endpoint.push("request", Value::Map(self.request(name, columns)?));
        endpoint.push("response", Value::Map(self.response(name, columns)?));
        self.cut(name, &mut endpoint)?;
        for (purpose, key, block) in BY_ID {
            let purpose = Cell::Text(purpose.into());
            let wanted = |row: &RegistryRow| row.endpoint == name && row.columns.get("purpose_code") == Some(&purpose);
            if let Some(row) = self.sorted(BATCHING_CFG, wanted).first() {
                endpoint.push(key, Value::Map(cells::read(&row.columns, block, BATCHING_CFG)?));
            }
        }
        if let Some(errors) = self.errors(name)? {
            endpoint.push("errors", errors);
        }
        let mut fields = Map::default();
        for row in self.fields(name, "RECORD_FIELD") {
            let field = cells::read(&row.columns, &FIELD, FIELD_DICT)?;
            fields.push(cells::text(&row.columns, FIELD_DICT, "field_name")?, Value::Map(field));
        }
        endpoint.push("fields", Value::Map(fields));
        endpoint.push("rate", Value::Map(self.rate(name, "")?));
        for (key, table, block) in [("http", HTTP_CFG, &HTTP), ("retry", RETRY_CFG, &RETRY)] {
            endpoint.push(key, Value::Map(self.block(table, name, block)?.unwrap_or_default()));
        }
        Ok(endpoint.sorted_by(&ENDPOINT))
    }

    fn request(&self, name: &str, columns: &Columns) -> Result<Map, BadRow> {
        let mut request = Map::default();
        let mut body = Map::default();
        for (key, value) in cells::read(columns, &REQUEST, ENDPOINT_DEF)?.iter() {
            match (key, value) {
                ("body", Value::Map(map)) => body = map.clone(),
                _ => request.push(key, value.clone()),
            }
        }
        request.push("query", Value::Map(self.params(name, "QUERY")?));
        request.push("headers", Value::Map(self.params(name, "HEADER")?));
        body.push("form", Value::Map(self.params(name, "BODY")?));
        request.push("body", Value::Map(body.sorted_by(&BODY)));
        Ok(request.sorted_by(&REQUEST))
    }

    fn response(&self, name: &str, columns: &Columns) -> Result<Map, BadRow> {
        let mut response = cells::read(columns, &RESPONSE, ENDPOINT_DEF)?;
        let mut paths: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for row in self.fields(name, "RESPONSE_PATH") {
            let field = cells::text(&row.columns, FIELD_DICT, "field_name")?;
            paths.entry(field).or_default().push(Value::Text(cells::text(&row.columns, FIELD_DICT, "path")?));
        }
        for (field, mut list) in paths {
            match RESPONSE.key(&field).map(|key| &key.kind) {
                Some(Kind::List(_)) => response.push(field, Value::List(list)),
                Some(_) => response.push(field, list.swap_remove(0)),
                None => return Err(cells::bad(FIELD_DICT, "field_name", "not a path of a response")),
            }
        }
        Ok(response.sorted_by(&RESPONSE))
    }

    fn query_syntax(&self) -> Result<Option<Value>, BadRow> {
        let named = Cell::Text(EVERY_FIELD.to_owned());
        let rules = self.sorted(RENDER_RULE, |row| row.columns.get("field_name") == Some(&named));
        let Some(row) = rules.first() else { return Ok(None) };
        let text = cells::text(&row.columns, RENDER_RULE, "render_template")?;
        let syntax = serde_json::from_str(&text).ok().and_then(|json| Value::from_json(&SYNTAX, &json));
        syntax.map(Some).ok_or_else(|| cells::bad(RENDER_RULE, "render_template", "not a syntax of queries"))
    }

    fn queries(&self) -> Result<Map, BadRow> {
        let mut queries = Map::default();
        for row in self.fields("", "QUERY_FIELD") {
            let name = cells::text(&row.columns, FIELD_DICT, "field_name")?;
            let named = Cell::Text(name.clone());
            let mut columns = Columns::new();
            for table in [CAPABILITY, RENDER_RULE] {
                for row in self.sorted(table, |row| row.columns.get("field_name") == Some(&named)) {
                    columns.extend(row.columns.clone());
                }
            }
            queries.push(name, Value::Map(cells::read(&columns, &QUERY, CAPABILITY)?));
        }
        Ok(queries)
    }
}

#[cfg(test)]
#[path = "rows_tests.rs"]
mod tests;
