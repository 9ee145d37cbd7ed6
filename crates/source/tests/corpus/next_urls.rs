//! Next URLs and `Link` headers: only the origin of the registry, whatever the spelling.

use super::targets::Target;
use super::{Family, Want, is};

pub fn build(family: &mut Family) {
    for (name, url) in [
        ("another host", "https://evil.example/v1/works"),
        ("another scheme", "http://api.example.org/v1/works"),
        ("another port", "https://api.example.org:444/v1/works"),
        ("a host that begins alike", "https://api.example.org.evil.example/"),
        ("a host that ends alike", "https://evilapi.example.org/"),
        ("a subdomain", "https://x.api.example.org/"),
        ("the parent domain", "https://example.org/"),
        ("no scheme", "//evil.example/x"),
        ("no scheme, three slashes", "///evil.example/x"),
        ("a scheme without slashes", "http:evil.example/x"),
        ("backslashes", "\\\\evil.example\\x"),
        ("slash and backslash", "/\\evil.example/x"),
        ("backslash and slash", "\\/evil.example/x"),
        ("a tab in the slashes", "/\t/evil.example/x"),
        ("a line end in the slashes", "/\r\n/evil.example/x"),
        ("a user", "https://user@api.example.org/v1"),
        ("a user and a password", "https://user:pass@api.example.org/v1"),
        ("the host as user", "https://api.example.org@evil.example/"),
        ("the host as user with a port", "https://api.example.org:443@evil.example/"),
        ("an encoded at sign", "https://api.example.org%40evil.example/"),
        ("a backslash before the at sign", "https://evil.example\\@api.example.org/"),
        ("an encoded slash in the host", "https://api.example.org%2f.evil.example/"),
        ("a NUL in the host", "https://api.example.org\0.evil.example/"),
        ("an encoded NUL in the host", "https://api.example.org%00.evil.example/"),
        ("a trailing dot", "https://api.example.org./v1"),
        ("a Cyrillic letter", "https://\u{430}pi.example.org/v1"),
        ("its punycode", "https://xn--pi-7kc.example.org/v1"),
        ("a soft dot that is none", "https://api\u{3002}evil.example/"),
        ("a fraction slash", "https://api.example.org\u{2044}.evil.example/"),
        ("127.0.0.1", "https://127.0.0.1/"),
        ("one number", "https://2130706433/"),
        ("hex", "https://0x7f000001/"),
        ("octal", "https://0177.0.0.1/"),
        ("mixed", "https://0x7f.1/"),
        ("two parts", "https://127.1/"),
        ("zero", "https://0/"),
        ("IPv6", "https://[::1]/"),
        ("IPv4 in IPv6", "https://[::ffff:127.0.0.1]/"),
        ("the metadata service", "http://169.254.169.254/latest/meta-data/"),
        ("localhost", "https://localhost/"),
        ("a file", "file:///etc/passwd"),
        ("a file on a host", "file://api.example.org/etc/passwd"),
        ("javascript", "javascript:alert(1)"),
        ("data", "data:application/json,{}"),
        ("ftp", "ftp://api.example.org/v1"),
        ("gopher", "gopher://api.example.org:70/_x"),
        ("a blob", "blob:https://api.example.org/1"),
        ("a web socket", "wss://api.example.org/v1"),
        ("a port that is none", "https://api.example.org:99999/v1"),
        ("a port of letters", "https://api.example.org:port/v1"),
        ("an open bracket", "https://[api.example.org/v1"),
        ("only a scheme", "https://"),
        // Bytes that are no text cannot be kept, and a changed cursor would ask for another page.
        ("a cursor of bytes that are no text", "?cursor=%FF%FE"),
        ("a cursor with half a letter", "https://api.example.org/v1/works?cursor=a%C3"),
    ] {
        family.add(Target::NextUrl, name, url, Want::Refused);
    }
    for (name, url, want) in [
        ("the same origin", "https://api.example.org/v1/works?cursor=2", "/v1/works?cursor=2&q=heart"),
        ("the default port", "https://api.example.org:443/v1/works?cursor=2", "/v1/works?cursor=2&q=heart"),
        ("capitals", "HTTPS://API.EXAMPLE.ORG/v1/works?cursor=2", "/v1/works?cursor=2&q=heart"),
        ("blanks around", "  https://api.example.org/v1/works?cursor=2\n", "/v1/works?cursor=2&q=heart"),
        ("a line end inside", "https://api.exam\nple.org/v1/works?cursor=2", "/v1/works?cursor=2&q=heart"),
        ("one slash", "https:/api.example.org/x", "/api.example.org/x?q=heart"),
        ("only a query", "?cursor=2", "/v1/works?cursor=2&q=heart"),
        ("a scheme and a colon", "https:", "/v1/works?q=heart&cursor=1"),
        ("only a path", "more", "/v1/more?q=heart"),
        ("dots", "../../../../etc/passwd", "/etc/passwd?q=heart"),
        ("encoded dots", "%2e%2e/%2E%2E/x", "/x?q=heart"),
        ("nothing", "", "/v1/works?q=heart&cursor=1"),
        ("a fragment", "?cursor=2#frag", "/v1/works?cursor=2&q=heart"),
        ("our key", "?cursor=2&api_key=secret-value", "/v1/works?cursor=2&q=heart"),
        ("our key as another name", "?cursor=2&x=secret-value", "/v1/works?cursor=2&q=heart"),
        ("our key as a name", "?cursor=2&secret-value=1", "/v1/works?cursor=2&q=heart"),
        ("our key inside a name", "?cursor=2&user:pas@secret-valuesecr", "/v1/works?cursor=2&q=heart"),
        ("the same parameter twice", "?cursor=2&cursor=3", "/v1/works?cursor=2&cursor=3&q=heart"),
        ("line ends that are encoded", "?cursor=a%0d%0aHost:%20evil", "/v1/works?cursor=a%0D%0AHost%3A%20evil&q=heart"),
        ("an encoded NUL", "?cursor=%00", "/v1/works?cursor=%00&q=heart"),
        ("a plus", "?cursor=a+b%2Bc", "/v1/works?cursor=a%20b%2Bc&q=heart"),
        ("a percent that encodes nothing", "?cursor=%zz%", "/v1/works?cursor=%25zz%25&q=heart"),
        ("raw blanks", "?cursor=a b", "/v1/works?cursor=a%20b&q=heart"),
        ("a replacement character", "?cursor=%EF%BF%BD", "/v1/works?cursor=%EF%BF%BD&q=heart"),
        ("letters outside ASCII", "/v1/wörks?cursor=é", "/v1/w%C3%B6rks?cursor=%C3%A9&q=heart"),
        ("two slashes in the path", "https://api.example.org//v1/works?cursor=2", "/.//v1/works?cursor=2&q=heart"),
        ("many slashes in the path", "https://api.example.org////evil.example/", "/.////evil.example/?q=heart"),
        ("a semicolon", "?cursor=2;x=3", "/v1/works?cursor=2%3Bx%3D3&q=heart"),
    ] {
        family.add(Target::NextUrl, name, url, is(want));
    }
    let long = format!("?cursor={}", "x".repeat(1 << 19));
    family.add(Target::NextUrl, "a cursor of half a megabyte", long, Want::Accepted);
    family.add(
        Target::NextUrl,
        "a hundred thousand parameters",
        format!("?{}", "a=b&".repeat(100_000)),
        Want::Accepted,
    );
    family.add(Target::NextUrl, "a path of a million dots", "../".repeat(300_000), Want::Accepted);
    links(family);
}

fn links(family: &mut Family) {
    for (name, value, want) in [
        ("nothing", "", Want::Nothing),
        ("no target", "rel=next", Want::Nothing),
        ("an open target", "<https://a/2; rel=next", Want::Nothing),
        ("another relation", "<https://a/1>; rel=prev", Want::Nothing),
        ("next among others", "<https://a/1>; rel=\"first next\"", is("https://a/1")),
        ("a comma in the target", "<https://a/1?x=1,2>; rel=next", is("https://a/1?x=1,2")),
        ("capitals", "<https://a/1>; REL=NEXT", is("https://a/1")),
        ("a relation that begins alike", "<https://a/1>; rel=nextpage", Want::Nothing),
        ("a relation in another parameter", "<https://a/1>; title=\"rel=next\"", Want::Nothing),
        ("a target in a title", "<https://a/1>; title=\"<https://b/2>; rel=next\"; rel=prev", Want::Nothing),
        ("an empty target", "<>; rel=next", is("")),
        ("the second of two", "<https://a/1>; rel=prev, <https://a/2>; rel=next", is("https://a/2")),
    ] {
        family.add(Target::LinkHeader, format!("a link header with {name}"), value, want);
    }
    family.add(Target::LinkHeader, "a link header of a million brackets", "<".repeat(1_000_000), Want::Nothing);
    family.add(Target::LinkHeader, "a link header of many links", "<a>;rel=x,".repeat(100_000), Want::Nothing);
}

#[test]
fn what_is_stored_can_be_followed_and_stays_on_the_origin() {
    use super::targets::{followed, next_url};
    let mut family = Family::new("next-urls");
    build(&mut family);
    let mut followed_count = 0;
    for case in family.cases.iter().filter(|case| case.target == Target::NextUrl) {
        let Ok(stored) = next_url(&String::from_utf8_lossy(&case.input)) else { continue };
        let url = followed(&stored).unwrap_or_else(|error| panic!("{}: {stored} {error}", case.name));
        assert_eq!(url.origin().ascii_serialization(), "https://api.example.org", "{}", case.name);
        followed_count += 1;
    }
    assert!(followed_count >= 20);
}
