//! XML pages: entities, depth, broken structure, encodings, namespaces, floods.

use super::targets::Target;
use super::targets::XmlShape::{Attribute, Oai, Plain};
use super::{Family, Want, ids};

fn set(items: &str) -> String {
    format!("<set total='1'>{items}</set>")
}

pub fn build(family: &mut Family) {
    entities(family);
    structure(family);
    depth(family);
    encodings(family);
    texts(family);
    namespaces(family);
    floods(family);
    cuts(family);
}

fn entities(family: &mut Family) {
    let plain = Target::Xml(Plain);
    let item = "<set><item><id>a</id></item></set>";
    let mut laughs = String::from("<!DOCTYPE set [<!ENTITY l0 'ha'>");
    for level in 1..10 {
        laughs.push_str(&format!("<!ENTITY l{level} '{}'>", format!("&l{};", level - 1).repeat(10)));
    }
    laughs.push_str("]><set><item><id>&l9;</id></item></set>");
    family.add(plain, "exponential entities", laughs, Want::RefusedWith("entities"));
    let quadratic = format!(
        "<!DOCTYPE set [<!ENTITY a '{}'>]><set><item><id>{}</id></item></set>",
        "x".repeat(100_000),
        "&a;".repeat(100_000)
    );
    family.add(plain, "quadratic entities", quadratic, Want::RefusedWith("entities"));
    for (name, doctype) in [
        ("a file", "<!DOCTYPE set [<!ENTITY f SYSTEM 'file:///etc/passwd'>]>"),
        ("a URL", "<!DOCTYPE set [<!ENTITY f SYSTEM 'http://127.0.0.1:9/'>]>"),
        ("a public name", "<!DOCTYPE set [<!ENTITY f PUBLIC 'x' 'http://127.0.0.1:9/'>]>"),
        ("a parameter", "<!DOCTYPE set [<!ENTITY % p SYSTEM 'http://127.0.0.1:9/'> %p;]>"),
        ("a parameter declared elsewhere", "<!DOCTYPE set SYSTEM 'x.dtd' [%p;]>"),
        ("a parameter by number", "<!DOCTYPE set [<!ENTITY % p '&#60;!ENTITY f \"x\"&#62;'>%p;]>"),
        ("itself", "<!DOCTYPE set [<!ENTITY a '&a;'>]>"),
        ("lower case", "<!DOCTYPE set [<!entity a 'x'>]>"),
        ("mixed case and blanks", "<!DOCTYPE  set\n[\n <!EnTiTy a 'x'> ]>"),
        ("a known name", "<!DOCTYPE set [<!ENTITY amp 'x'>]>"),
        ("an outer subset too", "<!DOCTYPE set PUBLIC 'a' 'http://127.0.0.1:9/x.dtd' [<!ENTITY a 'x'>]>"),
        ("an unparsed one", "<!DOCTYPE set [<!NOTATION n SYSTEM 'n'><!ENTITY e SYSTEM 'e.gif' NDATA n>]>"),
        ("one inside a comment", "<!DOCTYPE set [<!-- <!ENTITY a 'x'> -->]>"),
    ] {
        family.add(plain, format!("an entity from {name}"), format!("{doctype}{item}"), Want::RefusedWith("entities"));
    }
    for (name, doctype) in [
        ("plain", "<!DOCTYPE set>"),
        ("system", "<!DOCTYPE set SYSTEM 'http://127.0.0.1:9/x.dtd'>"),
        ("public", "<!DOCTYPE set PUBLIC '-//NLM//DTD PubMedArticle//EN' 'https://dtd.example.org/x.dtd'>"),
        ("file", "<!DOCTYPE set SYSTEM 'file:///etc/passwd'>"),
        ("with elements", "<!DOCTYPE set [<!ELEMENT set (item*)><!ATTLIST set total CDATA #IMPLIED>]>"),
        ("with an empty subset", "<!DOCTYPE set []>"),
    ] {
        family.add(plain, format!("a DOCTYPE, {name}"), format!("{doctype}{item}"), ids(&["a"]));
    }
    family.add(plain, "a DOCTYPE never closed", format!("<!DOCTYPE set [<!ELEMENT {item}"), Want::Refused);
    family.add(
        plain,
        "an undeclared entity stays as written",
        set("<item><id>a&nbsp;b</id></item>"),
        ids(&["a&nbsp;b"]),
    );
    family.add(
        Target::Xml(Attribute),
        "an undeclared entity in an attribute",
        "<set><item id='a&amp;&nbsp;b'/></set>",
        ids(&["a&&nbsp;b"]),
    );
    family.add(plain, "an entity without its end", set("<item><id>a&amp b</id></item>"), Want::Refused);
    family.add(plain, "a bare ampersand", set("<item><id>a & b</id></item>"), Want::Refused);
    family.add(plain, "an ampersand in an address", set("<item><id>a?x=1&y=2</id></item>"), Want::Refused);
}

fn structure(family: &mut Family) {
    let plain = Target::Xml(Plain);
    for (name, body) in [
        ("nothing", ""),
        ("blanks", " \n "),
        ("text", "Service unavailable"),
        ("JSON", r#"{"items":[]}"#),
        ("a comment", "<!-- none -->"),
        ("a declaration", "<?xml version='1.0'?>"),
        ("an error element", "<eFetchResult><ERROR>UID=0: cannot get document summary</ERROR></eFetchResult>"),
        ("an error list", "<errorBean><errCode>404</errCode></errorBean>"),
        ("HTML with open tags", "<html><body><p>Sorry<br></body></html>"),
        ("XHTML", "<html xmlns='http://www.w3.org/1999/xhtml'><body><p>Sorry</p></body></html>"),
        ("an unclosed root", "<set><item><id>a</id></item>"),
        ("an unclosed item", "<set><item><id>a</id></set>"),
        ("crossed tags", "<set><item><id>a</item></id></set>"),
        ("tags of other case", "<set><item><id>a</id></Item></set>"),
        ("an end without a start", "<set></item></set>"),
        ("an end at the start", "</set>"),
        ("two roots", "<set></set><set></set>"),
        ("text after the root", "<set></set>x"),
        ("text before the root", "x<set></set>"),
        ("CDATA after the root", "<set></set><![CDATA[x]]>"),
        ("a reference after the root", "<set></set>&amp;"),
        ("an open tag at the end", "<set><item"),
        ("an open attribute", "<set><item a='x"),
        ("an open comment", "<set><!-- x"),
        ("an open CDATA", "<set><![CDATA[ x"),
        ("an open instruction", "<set><?x "),
        ("an empty tag", "<set><></set>"),
        ("a NUL at the start", "\0<set/>"),
        ("a blank before the name", "< set></set>"),
        ("a page and its rest", "<set></set></set>"),
        ("an open end tag", "<set></set"),
    ] {
        family.add(plain, format!("the body is {name}"), body, Want::Refused);
    }
    for (name, body, want) in [
        ("an empty set", "<set/>", ids(&[])),
        ("another root that counts zero", "<none total='0'/>", ids(&[])),
        ("instructions everywhere", "<?a?><set><?b c='<'?><item><id>a<?d?>b</id></item></set><?e?>", ids(&["ab"])),
        (
            "comments everywhere",
            "<!--a--><set><!-- <item><id>x</id></item> --><item><id>a<!--b-->c</id></item></set>",
            ids(&["ac"]),
        ),
        ("a comment with dashes", "<set><!-- a -- b --><item><id>a</id></item></set>", ids(&["a"])),
        ("CDATA", "<set><item><id><![CDATA[<a>&amp;]]></id></item></set>", ids(&["<a>&amp;"])),
        ("CDATA in parts", "<set><item><id><![CDATA[a]]>]]&gt;<![CDATA[b]]></id></item></set>", ids(&["a]]>b"])),
        ("items inside items", "<set><item><id>a</id><item><id>b</id></item></item></set>", ids(&["a"])),
        ("a set inside the set", "<set><set><item><id>a</id></item></set></set>", ids(&[])),
        ("two ids", "<set><item><id>a</id><id>b</id></item></set>", ids(&["a"])),
        ("an id with markup", "<set><item><id>a<b>b</b>c</id></item></set>", ids(&["abc"])),
        ("no declaration", "<set><item><id>a</id></item></set>", ids(&["a"])),
        ("a version of the future", "<?xml version='9.9'?><set><item><id>a</id></item></set>", ids(&["a"])),
        ("single quotes", "<?xml version='1.0' standalone='yes'?><set><item><id>a</id></item></set>", ids(&["a"])),
        ("letters outside ASCII in names", "<set><é>x</é><item><id>a</id></item></set>", ids(&["a"])),
    ] {
        family.add(plain, format!("a page with {name}"), body, want);
    }
}

fn depth(family: &mut Family) {
    let plain = Target::Xml(Plain);
    let nested = |depth: usize| format!("{}{}", "<x>".repeat(depth), "</x>".repeat(depth));
    for (depth, want) in [(126, Want::Counts(2, 0)), (127, Want::Counts(1, 1)), (100_000, Want::Counts(1, 1))] {
        let body = set(&format!("<item><id>a</id>{}</item><item><id>b</id></item>", nested(depth)));
        family.add(plain, format!("{depth} elements inside an item"), body, want);
    }
    for (depth, want) in [(127, ids(&["a"])), (128, Want::Refused), (100_000, Want::Refused)] {
        family.add(
            plain,
            format!("{depth} elements beside the items"),
            set(&format!("{}<item><id>a</id></item>", nested(depth))),
            want,
        );
    }
    family.add(plain, "never closed", "<x>".repeat(100_000), Want::Refused);
    family.add(plain, "only ends", "</x>".repeat(1000), Want::Refused);
}

fn encodings(family: &mut Family) {
    let plain = Target::Xml(Plain);
    let declared = |label: &str, id: &[u8]| {
        [format!("<?xml version='1.0' encoding='{label}'?><set><item><id>").as_bytes(), id, b"</id></item></set>"]
            .concat()
    };
    family.add(plain, "ISO-8859-1", declared("ISO-8859-1", b"\xe9"), ids(&["é"]));
    family.add(plain, "windows-1252", declared("windows-1252", b"\x80"), ids(&["€"]));
    family.add(plain, "Shift_JIS", declared("Shift_JIS", b"\x93\xfa"), ids(&["日"]));
    family.add(plain, "GBK", declared("gbk", b"\xc4\xe3"), ids(&["你"]));
    family.add(plain, "Latin 1 that is UTF-8", declared("ISO-8859-1", "é".as_bytes()), ids(&["é"]));
    family.add(plain, "UTF-8 that is Latin 1", declared("UTF-8", b"\xe9"), Want::Counts(0, 1));
    family.add(plain, "a label nobody knows", declared("x-klingon", "é".as_bytes()), ids(&["é"]));
    family.add(plain, "a label nobody knows and other bytes", declared("x-klingon", b"\xe9"), Want::Counts(0, 1));
    family.add(plain, "UTF-7", declared("UTF-7", b"+ADw-id+AD4-"), ids(&["+ADw-id+AD4-"]));
    family.add(plain, "UTF-16 that is UTF-8", declared("UTF-16", "é".as_bytes()), ids(&["é"]));
    family.add(plain, "utf-16le that is ASCII", declared("utf-16le", b"a"), ids(&["a"]));
    family.add(plain, "an encoding that is refused everywhere", declared("iso-2022-kr", b"\xe9"), Want::Refused);
    family.add(plain, "Shift_JIS with a broken letter", declared("Shift_JIS", b"a\x93"), Want::Counts(0, 1));
    family.add(plain, "EUC-JP with a broken id", declared("EUC-JP", b"a\xa4 b"), Want::Counts(0, 1));
    let text = "<?xml version='1.0' encoding='UTF-16'?><set><item><id>é</id></item></set>";
    let wide = |bytes: fn(u16) -> [u8; 2]| {
        [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(bytes).collect::<Vec<u8>>()
    };
    family.add(plain, "UTF-16 little endian", wide(u16::to_le_bytes), ids(&["é"]));
    family.add(plain, "UTF-16 big endian", wide(u16::to_be_bytes), ids(&["é"]));
    family.add(plain, "UTF-16 without a mark", wide(u16::to_le_bytes)[2..].to_vec(), Want::Refused);
    family.add(plain, "UTF-16 cut", wide(u16::to_le_bytes)[..60].to_vec(), Want::Refused);
    let hidden = "<!DOCTYPE set [<!ENTITY a 'x'>]><set><item><id>&a;</id></item></set>";
    let hidden: Vec<u8> = [0xfeff].into_iter().chain(hidden.encode_utf16()).flat_map(u16::to_be_bytes).collect();
    family.add(plain, "entities hidden in UTF-16", hidden, Want::RefusedWith("entities"));
    family.add(
        plain,
        "a byte order mark and another label",
        [b"\xef\xbb\xbf".to_vec(), declared("ISO-8859-1", "é".as_bytes())].concat(),
        ids(&["é"]),
    );
    family.add(
        plain,
        "a declaration after a blank",
        " <?xml version='1.0'?><set><item><id>a</id></item></set>",
        Want::Accepted,
    );
    family.add(plain, "an open declaration", "<?xml version='1.0' encoding='", Want::Refused);
    family.add(
        plain,
        "an encoding without quotes",
        "<?xml encoding=latin1?><set><item><id>a</id></item></set>",
        ids(&["a"]),
    );
    family.add(
        plain,
        "bytes that are no text beside the items",
        &b"<set><x>\xff</x><item><id>a</id></item></set>"[..],
        ids(&["a"]),
    );
    family.add(
        plain,
        "bytes that are no text in the token",
        &b"<set><item><id>a</id></item><next>t\xff</next></set>"[..],
        Want::Refused,
    );
    family.add(
        Target::Xml(Attribute),
        "bytes that are no text in a token's attribute",
        &b"<set next='t\xff'><item id='a'/></set>"[..],
        Want::Refused,
    );
    family.add(
        plain,
        "a tag of bytes that are no text",
        &b"<set><\xff/><item><id>a</id></item></set>"[..],
        ids(&["a"]),
    );
}

fn texts(family: &mut Family) {
    let plain = Target::Xml(Plain);
    for (name, id, want) in [
        ("blanks around", " \n a \t", "a"),
        ("a reference", "&#x1F600;", "😀"),
        ("the five entities", "&lt;&gt;&amp;&quot;&apos;", "<>&\"'"),
        ("a doubly escaped ampersand", "&amp;amp;", "&amp;"),
        ("a SICI", "10.1002/(SICI)1&lt;1::AID&gt;3.0.CO;2-#", "10.1002/(SICI)1<1::AID>3.0.CO;2-#"),
        ("letters beyond the planes", "&#x10FFFF;", "\u{10ffff}"),
        ("a right-to-left override", "\u{202e}a", "\u{202e}a"),
    ] {
        family.add(plain, format!("an id with {name}"), set(&format!("<item><id>{id}</id></item>")), ids(&[want]));
    }
    family.add(
        plain,
        "a title of 5 MB",
        set(&format!("<item><id>a</id><title>{}</title></item>", "x".repeat(5_000_000))),
        ids(&["a"]),
    );
    family.add(
        plain,
        "a title of a million references",
        set(&format!("<item><id>a</id><title>{}</title></item>", "&amp;".repeat(1_000_000))),
        ids(&["a"]),
    );
    family.add(
        plain,
        "five hundred thousand comments",
        set(&format!("<item><id>a</id>{}</item>", "<!---->".repeat(500_000))),
        ids(&["a"]),
    );
    family.add(
        plain,
        "a text of CDATA crumbs",
        set(&format!("<item><id>a</id><title>{}</title></item>", "<![CDATA[x]]>".repeat(200_000))),
        ids(&["a"]),
    );
}

fn namespaces(family: &mut Family) {
    let oai = Target::Xml(Oai);
    let list = |root: &str, record: &str| format!("<OAI-PMH {root}><ListRecords>{record}</ListRecords></OAI-PMH>");
    let ours = "xmlns='http://www.openarchives.org/OAI/2.0/'";
    let plain = "<record><header><identifier>a</identifier></header></record>";
    let prefixed = "<o:record><o:header><o:identifier>a</o:identifier></o:header></o:record>";
    family.add(oai, "the right namespace", list(ours, plain), ids(&["a"]));
    family.add(oai, "another prefix", list("xmlns:o='http://www.openarchives.org/OAI/2.0/'", prefixed), ids(&["a"]));
    family.add(oai, "no namespace", list("x=''", plain), ids(&[]));
    family.add(oai, "another namespace", list("xmlns='http://www.openarchives.org/OAI/1.1/'", plain), ids(&[]));
    family.add(oai, "a prefix nobody declared", list(ours, prefixed), ids(&[]));
    family.add(oai, "prefixes swapped half way", list(ours, "<record xmlns='urn:x'><header/></record>"), ids(&[]));
    let unset = "<record><header xmlns=''><identifier>a</identifier></header></record>";
    family.add(oai, "a namespace taken back", list(ours, unset), Want::Counts(0, 1));
    let escaped = "xmlns='http://www.openarchives.org/OAI/2&#46;0/'";
    family.add(oai, "an escaped name", list(escaped, plain), ids(&["a"]));
    let deleted = "<record><header status='deleted'><identifier>a</identifier><datestamp>2026-01-01</datestamp></header></record>";
    family.add(oai, "a deleted record", list(ours, deleted), ids(&["a"]));
    let many: String = (0..100_000).map(|n| format!(" xmlns:p{n}='urn:{n}'")).collect();
    let records = plain.repeat(20_000);
    family.add(oai, "a hundred thousand prefixes", list(&format!("{many} {ours}"), &records), Want::Counts(20_000, 0));
    let reversed = list(&format!("{ours} {many}"), &records);
    family.add(oai, "a hundred thousand prefixes, ours first", reversed, Want::Counts(20_000, 0));
}

fn floods(family: &mut Family) {
    let many: String = (0..200_000).map(|n| format!(" a{n}='v'")).collect();
    family.add(
        Target::Xml(Plain),
        "two hundred thousand attributes",
        set(&format!("<item{many}><id>a</id></item>")),
        ids(&["a"]),
    );
    family.add(
        Target::Xml(Attribute),
        "an id among many attributes",
        format!("<set><item{many} id='a'/></set>"),
        ids(&["a"]),
    );
    let same = " x='v'".repeat(200_000);
    family.add(
        Target::Xml(Plain),
        "the same attribute again and again",
        set(&format!("<item{same}><id>a</id></item>")),
        ids(&["a"]),
    );
    family.add(Target::Xml(Plain), "attributes without values", set("<item checked><id>a</id></item>"), ids(&["a"]));
    family.add(Target::Xml(Attribute), "an id without quotes", "<set><item id=a /></set>", Want::Counts(0, 1));
    family.add(Target::Xml(Attribute), "an id with a tag in it", "<set><item id='a<b'/></set>", ids(&["a<b"]));
    family.add(
        Target::Xml(Plain),
        "fifty thousand empty items",
        set(&"<item/>".repeat(50_000)),
        Want::Counts(0, 50_000),
    );
    family.add(
        Target::Xml(Plain),
        "a million empty items",
        set(&"<item/>".repeat(1_000_000)),
        Want::RefusedWith("items"),
    );
    family.add(
        Target::Xml(Plain),
        "a name of 1 MB",
        set(&format!("<{0}></{0}><item><id>a</id></item>", "n".repeat(1 << 20))),
        ids(&["a"]),
    );
}

fn cuts(family: &mut Family) {
    let body = "<?xml version='1.0'?><set total='1'><item a=\"b\"><id>a &amp; b</id><!-- c --><title><![CDATA[x]]></title></item></set>";
    for cut in (1..body.len()).filter(|cut| *cut != 21) {
        if b"<>/?!='\"&;[]- ".contains(&body.as_bytes()[cut]) {
            family.add(Target::Xml(Plain), format!("cut at {cut}"), &body.as_bytes()[..cut], Want::Refused);
        }
    }
    family.add(Target::Xml(Plain), "not cut", body, ids(&["a & b"]));
}
