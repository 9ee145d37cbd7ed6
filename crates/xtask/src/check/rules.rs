//! Rules that neither the compiler nor clippy knows: sizes, what must not be in the tree, what the documents must say.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::lexer::{Split, split};

const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;
/// What a person on a fresh machine types.
const COMMANDS: [&str; 2] = ["cargo run --release -- demo", "cargo xtask test"];

/// A rule that is broken, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    file: PathBuf,
    line: usize,
    what: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file.display(), self.line, self.what)
    }
}

/// Every broken rule of the repository.
pub fn broken(root: &Path) -> Result<Vec<Broken>> {
    let crates = root.join("crates");
    let mut files = Vec::new();
    rust_files(&crates, &mut files)?;
    let mut sources = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        sources.push(Source::read(path, &text));
    }
    let tests: BTreeSet<PathBuf> = sources.iter().flat_map(Source::test_modules).collect();
    let mut broken: Vec<Broken> = sources.iter().flat_map(|source| source.broken(&tests)).collect();
    broken.extend(documents(root, &crates)?);
    for rule in &mut broken {
        rule.file = rule.file.strip_prefix(root).unwrap_or(&rule.file).to_owned();
    }
    broken.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    Ok(broken)
}

fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            rust_files(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// One file with the regions in it that are tests.
struct Source {
    path: PathBuf,
    text: String,
    split: Split,
    tests: Vec<Range<usize>>,
}

impl Source {
    fn read(path: PathBuf, text: &str) -> Source {
        let split = split(text);
        let tests = test_regions(&split.code);
        Source { path, text: text.to_owned(), split, tests }
    }

    /// Files and folders of modules declared for tests only.
    fn test_modules(&self) -> Vec<PathBuf> {
        let is_root = ["mod.rs", "lib.rs", "main.rs"].iter().any(|name| self.path.ends_with(name));
        let folder = if is_root { self.path.with_file_name("") } else { self.path.with_extension("") };
        let declared = self.tests.iter().filter_map(|region| {
            let item = self.split.code[region.clone()].trim_end().strip_suffix(';')?;
            let (attributes, name) = item.rsplit_once("mod ")?;
            // The name of a file is a string, which only the text still has.
            let renamed = attributes.contains("#[path").then(|| self.text[region.clone()].split('"').nth(1)).flatten();
            Some(match renamed {
                Some(file) => vec![self.path.with_file_name(file)],
                None => vec![folder.join(format!("{}.rs", name.trim())), folder.join(name.trim())],
            })
        });
        declared.flatten().collect()
    }

    fn is_test(&self, modules: &BTreeSet<PathBuf>) -> bool {
        let in_tests_folder = self.path.components().any(|part| part.as_os_str() == "tests");
        in_tests_folder || self.path.ancestors().any(|path| modules.contains(path))
    }

    fn broken(&self, modules: &BTreeSet<PathBuf>) -> Vec<Broken> {
        let code = &self.split.code;
        let mut broken = Vec::new();
        let mut add = |at: usize, what: String| {
            broken.push(Broken { file: self.path.clone(), line: line_of(code, at), what });
        };
        for attribute in ["#[ignore]", "#[ignore ="] {
            for (at, _) in code.match_indices(attribute) {
                add(at, "an ignored test proves nothing; make it a command or delete it".into());
            }
        }
        for word in ["TODO", "FIXME", "XXX"] {
            for (at, _) in self.split.comments.match_indices(word) {
                add(at, format!("`{word}` belongs into an issue"));
            }
        }
        // Tables of cases in tests may be as long as they need.
        if self.is_test(modules) {
            return broken;
        }
        for function in functions(code) {
            let lines = line_of(code, function.end - 1) - line_of(code, function.start) + 1;
            if lines > FUNCTION_LINES_MAX {
                add(function.start, format!("a function of {lines} lines; at most {FUNCTION_LINES_MAX}"));
            }
        }
        for call in [".unwrap()", "todo!(", "unimplemented!("] {
            for (at, _) in code.match_indices(call).filter(|(at, _)| !self.tests.iter().any(|t| t.contains(at))) {
                add(at, format!("`{call}` outside tests"));
            }
        }
        let lines =
            code.lines().count() - self.tests.iter().map(|test| code[test.clone()].lines().count()).sum::<usize>();
        if lines > FILE_LINES_MAX {
            add(0, format!("{lines} lines without tests; at most {FILE_LINES_MAX}"));
        }
        broken
    }
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// Items under `#[cfg(test)]`, attribute included.
fn test_regions(code: &str) -> Vec<Range<usize>> {
    let mut regions: Vec<Range<usize>> = Vec::new();
    for (at, attribute) in code.match_indices("#[cfg(test)]") {
        if regions.last().is_none_or(|last| !last.contains(&at)) {
            regions.push(at..item_end(code, at + attribute.len()));
        }
    }
    regions
}

/// Where the item ends that begins here: at its `;`, or at the brace that closes its body.
fn item_end(code: &str, from: usize) -> usize {
    let mut depth = 0usize;
    for (at, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.saturating_sub(1),
            b'{' if depth == 0 => return body_end(code, at),
            b';' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

fn body_end(code: &str, open: usize) -> usize {
    let mut depth = 0usize;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    code.len()
}

/// Every function with a body, from `fn` to its closing brace.
fn functions(code: &str) -> Vec<Range<usize>> {
    let is_name = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let bytes = code.as_bytes();
    let starts = code.match_indices("fn ").map(|(at, _)| at);
    let starts = starts.filter(|at| (*at == 0 || !is_name(bytes.get(at - 1))) && is_name(bytes.get(at + 3)));
    starts.map(|at| at..item_end(code, at)).collect()
}

/// The map names every crate, and README tells how to begin.
fn documents(root: &Path, crates: &Path) -> Result<Vec<Broken>> {
    let read = |name: &str| std::fs::read_to_string(root.join(name)).unwrap_or_default();
    let (map, readme) = (read("ARCHITECTURE.md"), read("README.md"));
    let missing = |file: &str, what: String| Broken { file: root.join(file), line: 1, what };
    let mut broken = Vec::new();
    for entry in std::fs::read_dir(crates)? {
        let name = format!("crates/{}", entry?.file_name().to_string_lossy());
        if !map.contains(&name) {
            broken.push(missing("ARCHITECTURE.md", format!("does not name `{name}`")));
        }
    }
    for command in COMMANDS.iter().filter(|command| !readme.contains(*command)) {
        broken.push(missing("README.md", format!("does not tell `{command}`")));
    }
    Ok(broken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken_in(path: &str, text: &str) -> Vec<String> {
        let source = Source::read(path.into(), text);
        let modules = source.test_modules().into_iter().collect();
        source.broken(&modules).iter().map(|rule| format!("{} {}", rule.line, rule.what)).collect()
    }

    #[test]
    fn what_is_forbidden_in_the_product_is_fine_in_its_tests() {
        let product = "fn a() {\n    b.unwrap();\n}\n";
        let tested = format!("#[cfg(test)]\nmod tests {{\n{product}}}\n");
        assert_eq!(broken_in("crates/x/src/a.rs", product), ["2 `.unwrap()` outside tests"]);
        assert!(broken_in("crates/x/src/a.rs", &tested).is_empty());
        assert!(broken_in("crates/x/tests/a.rs", product).is_empty());
        assert!(broken_in("crates/x/src/a.rs", "fn a() { \".unwrap()\"; } // .unwrap()\n").is_empty());
    }

    #[test]
    fn long_functions_and_files_are_told_with_their_lines() {
        let long = format!("\nfn a() {{\n{}}}\n", "    b();\n".repeat(69));
        assert_eq!(broken_in("a.rs", &long), ["2 a function of 71 lines; at most 70"]);
        assert!(broken_in("a.rs", &long.replacen("    b();\n", "", 1)).is_empty());
        let many = "const A: u8 = 1;\n".repeat(501);
        assert_eq!(broken_in("a.rs", &many), ["1 501 lines without tests; at most 500"]);
        let half = format!("{}#[cfg(test)]\nmod tests {{\n{}}}\n", "\n".repeat(300), "\n".repeat(300));
        assert!(broken_in("a.rs", &half).is_empty());
    }

    #[test]
    fn ignored_tests_and_postponed_work_are_refused_everywhere() {
        let ignored = concat!("#[", "ignore = \"slow\"]\nfn a() {}\n");
        assert_eq!(broken_in("tests/a.rs", ignored).len(), 1);
        let later = concat!("// TO", "DO later\n");
        assert_eq!(broken_in("tests/a.rs", later), [concat!("1 `TO", "DO` belongs into an issue")]);
    }

    #[test]
    fn modules_declared_for_tests_are_tests() {
        let source = Source::read("src/lib.rs".into(), "#[cfg(test)]\nmod bench;\nmod real;\n");
        assert_eq!(source.test_modules(), [PathBuf::from("src/bench.rs"), PathBuf::from("src/bench")]);
        let renamed = Source::read("src/a.rs".into(), "#[cfg(test)]\n#[path = \"a_tests.rs\"]\nmod tests;\n");
        assert_eq!(renamed.test_modules(), [PathBuf::from("src/a_tests.rs")]);
        let modules = source.test_modules().into_iter().collect();
        assert!(Source::read("src/bench/deep.rs".into(), "").is_test(&modules));
        assert!(!Source::read("src/real.rs".into(), "").is_test(&modules));
    }
}
