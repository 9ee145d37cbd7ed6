//! Which credential an endpoint uses, and whether it is complete.

use crate::registry::definition::{Definition, Map, Value};
use crate::registry::diagnostic::Diagnostic;
use crate::spec::overrides::TriggerOverrides;
use crate::spec::snapshot::{AuthSpec, Method, Place, RateKeyPart, SpecSnapshot};
use crate::time::Span;

/// How long before its end a token is renewed when nobody says.
const REFRESH_BEFORE: Span = Span::MINUTE;

pub(super) struct Choice<'a> {
    /// Name and block of the credential in use.
    pub credential: Option<(&'a str, &'a Map)>,
    /// Those that are used together with it.
    pub spare: Vec<(&'a str, &'a Map)>,
    /// An optional credential was passed over because its secret is not here.
    pub passed_over: Option<&'a str>,
}

/// The credential for an endpoint: the one it names, else the first whose secret is here.
pub(super) fn choose<'a>(
    definition: &'a Definition,
    name: &str,
    endpoint: &'a Map,
    overrides: &TriggerOverrides,
) -> Result<Choice<'a>, Vec<Diagnostic>> {
    let places = definition.places();
    let path = |key: &str| format!("endpoints.{name}.{key}");
    let need = endpoint.text("auth").unwrap_or("OPTIONAL");
    if need == "NONE" {
        return Ok(Choice { credential: None, spare: Vec::new(), passed_over: None });
    }
    let mut candidates: Vec<(&str, &Map)> = definition.credentials().collect();
    if let Some(wanted) = endpoint.text("credential") {
        if !candidates.iter().any(|(known, _)| *known == wanted) {
            let at = places.value(&path("credential"));
            let message = format!("there is no credential `{wanted}`");
            let mistake = Diagnostic::error("credential_unknown", &places.file, at, message).found(wanted);
            return Err(vec![mistake.suggest(wanted, candidates.iter().map(|(known, _)| *known))]);
        }
        candidates.retain(|(known, _)| *known == wanted);
    }
    let here = |credential: &(&str, &Map)| match &overrides.credentials {
        Some(names) => names.contains(credential.0),
        None => !credential.1.flag("optional"),
    };
    let chosen = candidates.iter().find(|candidate| here(candidate));
    // Without its secret a credential that is not optional is still chosen: the run then fails and names the secret.
    let chosen = chosen.or_else(|| candidates.iter().find(|(_, map)| !map.flag("optional"))).copied();
    if chosen.is_none() && need == "REQUIRED" {
        return Err(vec![none_for_required(definition, name, &candidates)]);
    }
    let passed_over = if chosen.is_none() { candidates.first().map(|(known, _)| *known) } else { None };
    let pooled = |(_, map): &(&str, &Map)| map.flag("pool");
    let spare = match chosen.filter(pooled) {
        Some((first, _)) => candidates.into_iter().filter(|one| one.0 != first && pooled(one) && here(one)).collect(),
        None => Vec::new(),
    };
    Ok(Choice { credential: chosen, spare, passed_over })
}

fn none_for_required(definition: &Definition, name: &str, candidates: &[(&str, &Map)]) -> Diagnostic {
    let places = definition.places();
    let at = places.value(&format!("endpoints.{name}.auth"));
    let message = format!("endpoint `{name}` must not be asked anonymously and has no credential");
    let mistake = Diagnostic::error("auth_required", &places.file, at, message);
    match candidates.first().and_then(|(_, map)| map.text("secret")) {
        Some(reference) => mistake.hint(format!("provide `{reference}`")),
        None => mistake.hint("add a credential under `credentials`"),
    }
}

/// The credential as the source side needs it.
pub(super) fn spec(
    definition: &Definition,
    credential: Option<(&str, &Map)>,
    method: Method,
) -> Result<AuthSpec, Vec<Diagnostic>> {
    let Some((name, map)) = credential else { return Ok(AuthSpec::None) };
    let mut reader = Reader { definition, name, map, mistakes: Vec::new() };
    let auth = reader.auth();
    let place = match &auth {
        AuthSpec::ApiKey { place, .. } | AuthSpec::Custom { place, .. } => Some(*place),
        _ => None,
    };
    if place == Some(Place::Body) && method == Method::Get {
        let message = format!("credential `{name}` goes into the body, but the request is a GET");
        reader.fault("auth_placement", "in", message, "use `in: header` or `in: query`, or method post");
    }
    if reader.mistakes.is_empty() { Ok(auth) } else { Err(reader.mistakes) }
}

/// Puts the credentials that are used together into a spec; mistakes of them.
pub(super) fn pool(definition: &Definition, spare: &[(&str, &Map)], spec: &mut SpecSnapshot) -> Vec<Diagnostic> {
    let mut mistakes = Vec::new();
    for one in spare {
        match self::spec(definition, Some(*one), spec.request.method) {
            Ok(auth) => spec.spare_auth.push(auth),
            Err(wrong) => mistakes.extend(wrong),
        }
    }
    mistakes.extend(pool_mistake(definition, spec));
    mistakes
}

/// Credentials that are used together must be counted by themselves, or none of them has anything left of its own.
fn pool_mistake(definition: &Definition, spec: &SpecSnapshot) -> Option<Diagnostic> {
    let counted = spec.rate.shared.is_none() && spec.rate.key.contains(&RateKeyPart::Credential);
    if spec.spare_auth.is_empty() || counted {
        return None;
    }
    let name = spec.auth.credential().unwrap_or_default();
    let places = definition.places();
    let at = places.value(&format!("credentials.{name}.pool"));
    let message =
        format!("credential `{name}` is used together with others, but the rate does not count by credential");
    Some(Diagnostic::error("pool_key", &places.file, at, message).hint("add `credential` to `rate.key`"))
}

struct Reader<'a> {
    definition: &'a Definition,
    name: &'a str,
    map: &'a Map,
    mistakes: Vec<Diagnostic>,
}

impl Reader<'_> {
    fn auth(&mut self) -> AuthSpec {
        let credential = self.name.to_owned();
        match self.map.text("type").unwrap_or("NONE") {
            "API_KEY" => AuthSpec::ApiKey {
                credential,
                secret: self.need("secret"),
                place: self.place(),
                name: self.need("name"),
                prefix: self.map.text("prefix").unwrap_or_default().to_owned(),
            },
            "BEARER" => AuthSpec::Bearer { credential, secret: self.need("secret") },
            "BASIC" => AuthSpec::Basic { credential, user: self.need("user"), password: self.need("password") },
            "OAUTH2" => AuthSpec::Oauth2 {
                credential,
                token_url: self.need("token_url"),
                client_id: self.need("client_id"),
                client_secret: self.need("client_secret"),
                scope: self.map.text("scope").map(str::to_owned),
                refresh_before: self.map.text("refresh_before").and_then(|t| t.parse().ok()).unwrap_or(REFRESH_BEFORE),
            },
            "CUSTOM" => AuthSpec::Custom {
                credential,
                hook: self.need("hook").to_ascii_lowercase(),
                secret: self.need("secret"),
                place: self.place(),
                name: self.need("name"),
                options: self.options(),
            },
            _ => AuthSpec::None,
        }
    }

    fn need(&mut self, key: &str) -> String {
        if let Some(text) = self.map.text(key) {
            return text.to_owned();
        }
        let kind = self.map.text("type").unwrap_or_default().to_ascii_lowercase();
        let message = format!("credential `{}` of type {kind} has no `{key}`", self.name);
        let code = if key == "hook" { "signing_hook_missing" } else { "auth_incomplete" };
        self.fault(code, "type", message, &format!("add `{key}`"));
        String::new()
    }

    fn place(&self) -> Place {
        match self.map.text("in") {
            Some("QUERY") => Place::Query,
            Some("BODY") => Place::Body,
            _ => Place::Header,
        }
    }

    fn options(&self) -> std::collections::BTreeMap<String, String> {
        let text = |(name, value): (&str, &Value)| match value {
            Value::Text(text) => Some((name.to_owned(), text.clone())),
            _ => None,
        };
        self.map.map("options").into_iter().flat_map(Map::iter).filter_map(text).collect()
    }

    fn fault(&mut self, code: &'static str, key: &str, message: String, hint: &str) {
        let places = self.definition.places();
        let at = places.value(&format!("credentials.{}.{key}", self.name));
        self.mistakes.push(Diagnostic::error(code, &places.file, at, message).hint(hint));
    }
}
