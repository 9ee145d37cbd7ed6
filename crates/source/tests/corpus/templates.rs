//! Request templates: everything but a short list of names and filters is refused, and what is left is bounded.

use super::targets::Target;
use super::{Family, Want, is};

pub fn build(family: &mut Family) {
    for (name, text) in [
        ("a loop", "{% for x in ids %}${x}{% endfor %}"),
        ("a loop over a range", "{%for x in range(1000000000)%}x{%endfor%}"),
        ("a block inside an expression", "${'{%' ~ 'x'}{% raw %}"),
        ("an include", "{% include '/etc/passwd' %}"),
        ("an import", "{% import 'os' as os %}"),
        ("a macro that calls itself", "{% macro m() %}${m()}{% endmacro %}"),
        ("an assignment", "{% set x = 1 %}"),
        ("a comment", "{# note #}"),
        ("the environment", "${env.HOME}"),
        ("a filter nobody knows", "${page.size | shout}"),
        ("a filter that repeats", "${'a' | repeat(1000000000)}"),
        ("a filter of the language", "${params | tojson}"),
        ("a function nobody knows", "${range(10)}"),
        ("a debug function", "${debug()}"),
        ("a method", "${params.type.upper()}"),
        ("a method of a text", "${'a'.upper()}"),
        ("a test nobody knows", "${page.size is odd}"),
        ("a multiplied text", "${'a' * 1000000000}"),
        ("a power", "${9 ** 9 ** 9}"),
        ("a division by zero", "${1 / 0}"),
        ("a remainder", "${1 % 0}"),
        ("a lambda", "${x => x}"),
        ("a map", "${{'a': 1}}"),
        ("a name nobody knows", "${window.until}"),
        ("a whole map", "${window}"),
        ("an inner name", "${params.__class__.__mro__}"),
        ("an attribute of a text", "${expr.q.length}"),
        ("a name by index", "${params[0]}"),
        ("a name by expression", "${params[page.token]}"),
        ("self", "${self}"),
        ("loop", "${loop.index}"),
        ("caller", "${caller()}"),
        ("an empty expression", "${}"),
        ("a blank expression", "${  }"),
        ("an open expression", "${page.size"),
        ("an open text", "${'open}"),
        ("an open text at the end", "${'open\\"),
        ("an open bracket", "${(page.size}"),
        ("a dangling operator", "${page.size +}"),
        ("a dangling pipe", "${page.size |}"),
        ("two dots", "${page..size}"),
        ("a date format nobody knows", "${window.from | date('%!')}"),
        ("a date format at its end", "${window.from | date('%')}"),
        ("a date without a format", "${window.from | date}"),
        ("a date of a number", "${page.size | date('%F')}"),
        ("a list in a text", "x${[1, 2]}"),
        ("a NUL", "${page\0.size}"),
        ("a letter that is not allowed", "${page.sïze}"),
        ("a line comment", "${page.size ## }"),
        ("braces in braces", "${${page.size}}"),
        ("a slice", "${expr.q[::2]}"),
        ("a slice that counts down", "${expr.q[::-1]}"),
        ("a slice that counts down from the smallest number", "${expr.q[::-9223372036854775808]}"),
        ("a slice that counts down to beyond the end", "2147${expr.q[:2147483648:-1]}"),
        ("an empty slice step", "${expr.q[::0]}"),
    ] {
        family.add(Target::Template, name, text, Want::Refused);
    }
    for (name, text, want) in [
        ("plain text", "a{b}$c", is("a{b}$c")),
        ("a brace in a text", "${'a}b'}", is("a}b")),
        ("dollars", "$${page.size}", is("$10")),
        ("something undefined", "${params.none}", Want::Nothing),
        ("something undefined in a longer text", "x${params.none}", Want::Refused),
        ("a default", "${params.none | default('d')}", is("d")),
        ("letters outside ASCII", "é${'ü'}", is("éü")),
        ("control characters", "a\r\nb${'c\\n'}", Want::Accepted),
        ("half of a pair", r"${'\ud800'}", Want::Refused),
        ("a whole pair", r"${'\ud83d\ude00'}", Want::Accepted),
        ("the largest number", "${9223372036854775807}", is("9223372036854775807")),
        ("a sum over the largest number", "${9223372036854775807 + 1}", Want::Accepted),
        ("a number of fifty digits", "${99999999999999999999999999999999999999999999999999}", Want::Refused),
        ("a difference below the smallest number", "${-9223372036854775807 - 9223372036854775807}", Want::Accepted),
        ("a minus before the smallest number", "${-(-9223372036854775807 - 1)}", Want::Accepted),
    ] {
        family.add(Target::Template, name, text, want);
    }
    for (name, text) in [
        ("minus signs", format!("${{{}1}}", "-".repeat(200))),
        ("nots", format!("${{{}1}}", "not ".repeat(200))),
        ("pipes", format!("${{'x'{}}}", "|upper".repeat(120))),
        ("conditions", format!("${{1{}}}", " if 1 else 1".repeat(60))),
        ("comparisons", format!("${{1{}}}", " and 1".repeat(120))),
    ] {
        family.add(Target::Template, format!("as many {name} as an expression can hold"), text, Want::Accepted);
    }
    family.add(Target::Template, "longer than 64 KiB", "x".repeat(64 * 1024 + 1), Want::Refused);
    family.add(Target::Template, "as long as 64 KiB", "x".repeat(64 * 1024), Want::Accepted);
    for (name, open, close) in
        [("brackets", "(", ")"), ("lists", "[", "]"), ("minus signs", "-", ""), ("nots", "not ", "")]
    {
        let nested = format!("${{{}1{}}}", open.repeat(10_000), close.repeat(10_000));
        family.add(Target::Template, format!("ten thousand {name}"), nested, Want::Refused);
    }
    let calls = format!("${{{}'x'{}}}", "concat(".repeat(5_000), ")".repeat(5_000));
    family.add(Target::Template, "five thousand calls in each other", calls, Want::Refused);
    family.add(Target::Template, "five thousand pipes", format!("${{'x'{}}}", "|upper".repeat(5_000)), Want::Refused);
    let filters = format!("${{'{}'{}}}", "x".repeat(9_000), "|quote".repeat(60));
    family.add(Target::Template, "quotes of quotes", filters, Want::Refused);
    family.add(
        Target::Template,
        "sixteen thousand texts joined",
        format!("${{'x'{}}}", "~'x'".repeat(16_000)),
        Want::Refused,
    );
    family.add(
        Target::Template,
        "fifty times the query",
        format!("${{concat(expr.q{})}}", ",expr.q".repeat(55)),
        Want::RefusedWith("1 MB"),
    );
    family.add(
        Target::Template,
        "the query joined to itself",
        format!("${{expr.q{}}}", "~expr.q".repeat(8_000)),
        Want::Refused,
    );
    family.add(
        Target::Template,
        "sixty-four texts joined",
        format!("${{'x'{}}}", "~'x'".repeat(64)),
        is(&"x".repeat(65)),
    );
    family.add(
        Target::Template,
        "thousands of expressions",
        "${expr.q|upper}".repeat(4_000),
        Want::RefusedWith("1 MB"),
    );
    family.add(
        Target::Template,
        "a format of many letters",
        format!("${{window.from|date('{}')}}", "%255Y".repeat(10_000)),
        Want::Accepted,
    );
    family.add(
        Target::Template,
        "a conditional chain",
        format!("${{1{}}}", " if 1 else 1".repeat(4_000)),
        Want::Refused,
    );
}
