//! What a process did to its database, read from the words of `strace -f -ttt -y -xx -a 1`.
//!
//! A call has two edges: it begins and it ends, and other threads do things in between. A call on the database that the
//! model of the disk does not know is an error: nothing that was written may be overlooked.

use std::collections::HashMap;

use anyhow::{Context, Result, bail, ensure};

/// What is asked of `strace`: every call that could change a file, and those that show what the process says.
pub const CALLS: &str = "open,openat,creat,write,writev,pwrite64,pwritev,pwritev2,truncate,ftruncate,fallocate,\
    fsync,fdatasync,unlink,unlinkat,rename,renameat,renameat2,link,linkat,symlink,symlinkat,mmap,\
    copy_file_range,sendfile,splice";
/// Longest string that is shown whole, in bytes; more than any write of SQLite.
pub const STRING_MAX: usize = 262_144;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Opened so that it is there from now on.
    Create {
        path: String,
    },
    Write {
        path: String,
        offset: u64,
        bytes: Vec<u8>,
    },
    Truncate {
        path: String,
        length: u64,
    },
    Unlink {
        path: String,
    },
    /// Of a file, or of the folder and with it of the names in it.
    Sync {
        path: String,
    },
    /// What the process said on stderr: the outside may act on it.
    Say {
        text: String,
    },
    /// It failed.
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    Begin(usize),
    End(usize),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    pub at_us: i64,
    pub edge: Edge,
}

#[derive(Clone, Debug, Default)]
pub struct Trace {
    pub calls: Vec<Call>,
    pub moments: Vec<Moment>,
}

/// Reads the lines of one run, in their order.
pub struct Reader {
    database: String,
    folder: String,
    /// Calls that have begun, by thread; `None` for one that does not matter.
    begun: HashMap<String, Option<usize>>,
    trace: Trace,
}

impl Reader {
    /// For a database at an absolute path without links.
    pub fn new(database: &str) -> Reader {
        let folder = database.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
        Reader { database: database.to_owned(), folder, begun: HashMap::new(), trace: Trace::default() }
    }

    pub fn read(&mut self, line: &str) -> Result<()> {
        let (thread, rest) = line.trim().split_once(' ').context("a line without a thread")?;
        let (time, words) = rest.trim_start().split_once(' ').context("a line without a time")?;
        let at_us = micros(time).with_context(|| format!("{time:?} is no time"))?;
        if words.starts_with("+++") || words.starts_with("---") {
            return Ok(());
        }
        if words.starts_with("<... ") {
            let begun = self.begun.remove(thread).context("a call ends that never began")?;
            return begun.map_or(Ok(()), |call| self.end(call, at_us, words));
        }
        if let Some(words) = words.strip_suffix("<unfinished ...>") {
            let begun = self.begin(words, at_us)?;
            self.begun.insert(thread.to_owned(), begun);
            return Ok(());
        }
        let begun = self.begin(words, at_us)?;
        begun.map_or(Ok(()), |call| self.end(call, at_us, words))
    }

    pub fn finish(self) -> Trace {
        self.trace
    }

    fn begin(&mut self, words: &str, at_us: i64) -> Result<Option<usize>> {
        let (name, rest) = words.split_once('(').context("a line without a call")?;
        let arguments = rest.rsplit_once(") = ").map_or(rest, |(arguments, _)| arguments);
        let arguments: Vec<&str> = arguments.split(", ").map(str::trim).collect();
        let call = self.call(name, &arguments).with_context(|| format!("{name} is not understood"))?;
        let Some(call) = call else { return Ok(None) };
        let number = self.trace.calls.len();
        self.trace.calls.push(call);
        self.trace.moments.push(Moment { at_us, edge: Edge::Begin(number) });
        Ok(Some(number))
    }

    fn end(&mut self, call: usize, at_us: i64, words: &str) -> Result<()> {
        let (_, result) = words.rsplit_once(" = ").context("a call without a result")?;
        let digits = result.split(|end: char| end != '-' && !end.is_ascii_digit()).next().unwrap_or_default();
        // A process that is killed leaves a question mark; its call never ends.
        let Ok(result) = digits.parse::<i64>() else { return Ok(()) };
        let known = &mut self.trace.calls[call];
        match (&mut *known, usize::try_from(result)) {
            (_, Err(_)) => *known = Call::Nothing,
            (Call::Write { bytes, .. }, Ok(written)) => bytes.truncate(written),
            _ => {}
        }
        self.trace.moments.push(Moment { at_us, edge: Edge::End(call) });
        Ok(())
    }

    fn call(&self, name: &str, arguments: &[&str]) -> Result<Option<Call>> {
        let at = |number: usize| arguments.get(number).copied().context("an argument is missing");
        let ours = |path: Option<String>| path.filter(|path| self.is_kept(path));
        match name {
            "write" if at(0)?.starts_with("2<") => {
                Ok(Some(Call::Say { text: String::from_utf8_lossy(&string(at(1)?)?).into_owned() }))
            }
            "open" | "openat" | "creat" => self.opened(name, arguments),
            "pwrite64" => {
                let Some(path) = ours(path(at(0)?)?) else { return Ok(None) };
                Ok(Some(Call::Write { path, offset: at(3)?.parse()?, bytes: string(at(1)?)? }))
            }
            "ftruncate" => {
                let Some(path) = ours(path(at(0)?)?) else { return Ok(None) };
                Ok(Some(Call::Truncate { path, length: at(1)?.parse()? }))
            }
            "fsync" | "fdatasync" => {
                let synced = path(at(0)?)?.filter(|path| self.is_kept(path) || *path == self.folder);
                Ok(synced.map(|path| Call::Sync { path }))
            }
            "unlink" => Ok(ours(Some(text(at(0)?)?)).map(|path| Call::Unlink { path })),
            // Only a map that is written could change a file behind our back.
            "mmap" if !at(2)?.contains("PROT_WRITE") || at(3)?.contains("MAP_PRIVATE") => Ok(None),
            _ => self.refused(name, arguments),
        }
    }

    fn opened(&self, name: &str, arguments: &[&str]) -> Result<Option<Call>> {
        let first = usize::from(name == "openat");
        let path = text(arguments.get(first).context("no path")?)?;
        let flags = arguments.get(first + 1).copied().unwrap_or_default();
        if !self.is_kept(&path) || !(name == "creat" || flags.contains("O_CREAT")) {
            return Ok(None);
        }
        ensure!(name != "creat" && !flags.contains("O_TRUNC"), "a file that is emptied when it is opened");
        Ok(Some(Call::Create { path }))
    }

    /// Any other call must leave the database alone.
    fn refused(&self, name: &str, arguments: &[&str]) -> Result<Option<Call>> {
        for argument in arguments {
            let named = if argument.starts_with('"') { Some(text(argument)?) } else { path(argument)? };
            if named.is_some_and(|path| self.is_kept(&path)) {
                bail!("{name} on the database, which the model of the disk does not know");
            }
        }
        Ok(None)
    }

    /// The database, its journal and its log. The index of the log is rebuilt after a crash.
    fn is_kept(&self, path: &str) -> bool {
        match path.strip_prefix(&self.database) {
            Some(rest) => rest.is_empty() || (rest.starts_with('-') && rest != "-shm"),
            None => false,
        }
    }
}

fn micros(time: &str) -> Option<i64> {
    let (seconds, micros) = time.split_once('.')?;
    Some(seconds.parse::<i64>().ok()? * 1_000_000 + micros.parse::<i64>().ok()?)
}

/// The path of `4<\x2f\x74>`; none for what has no name any more.
fn path(argument: &str) -> Result<Option<String>> {
    let Some((_, named)) = argument.split_once('<') else { return Ok(None) };
    let Some((hex, after)) = named.split_once('>') else { return Ok(None) };
    if after.contains("deleted") {
        return Ok(None);
    }
    Ok(Some(String::from_utf8_lossy(&bytes(hex)?).into_owned()))
}

fn text(argument: &str) -> Result<String> {
    Ok(String::from_utf8_lossy(&string(argument)?).into_owned())
}

/// The bytes of `"\x00\x01"`.
fn string(argument: &str) -> Result<Vec<u8>> {
    let inner = argument.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    bytes(inner.context("a string is not shown whole")?)
}

fn bytes(hex: &str) -> Result<Vec<u8>> {
    let digit = |digit: u8| (digit as char).to_digit(16);
    let byte = |four: &[u8]| match four {
        [b'\\', b'x', high, low] => Some((digit(*high)? << 4 | digit(*low)?) as u8),
        _ => None,
    };
    hex.as_bytes().chunks(4).map(|four| byte(four).context("a string is not in hex")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> String {
        text.bytes().map(|byte| format!("\\x{byte:02x}")).collect()
    }

    fn read(lines: &[String]) -> Result<Trace> {
        let mut reader = Reader::new("/d/x.db");
        lines.iter().try_for_each(|line| reader.read(line))?;
        Ok(reader.finish())
    }

    #[test]
    fn calls_on_the_database_are_read_and_others_are_not() {
        let (db, wal, shm) = (hex("/d/x.db"), hex("/d/x.db-wal"), hex("/d/x.db-shm"));
        let flags = "O_RDWR|O_CREAT|O_CLOEXEC, 0644";
        let trace = read(&[
            format!("7 1.000001 openat(AT_FDCWD<{}>, \"{wal}\", {flags}) = 4<{wal}>", hex("/d")),
            format!("7 1.000002 pwrite64(4<{wal}>, \"{}\", 2, 32) = 2", hex("ab")),
            format!("7 1.000003 pwrite64(5<{shm}>, \"{}\", 2, 32) = 2", hex("ab")),
            format!("7 1.000004 ftruncate(3<{db}>, 1024) = 0"),
            format!("7 1.000005 fdatasync(9<{}>) = 0", hex("/d")),
            format!("7 1.000006 unlink(\"{wal}\") = -1 ENOENT (No such file or directory)"),
            format!("7 1.000007 write(2<{}>, \"{}\", 4) = 4", hex("/log"), hex("batch")),
            "7 1.000008 +++ exited with 0 +++".to_owned(),
        ]);
        let path = "/d/x.db-wal".to_owned();
        let want = vec![
            Call::Create { path: path.clone() },
            Call::Write { path, offset: 32, bytes: b"ab".to_vec() },
            Call::Truncate { path: "/d/x.db".into(), length: 1_024 },
            Call::Sync { path: "/d".into() },
            Call::Nothing,
            Call::Say { text: "batch".into() },
        ];
        assert_eq!(trace.unwrap().calls, want);
    }

    #[test]
    fn a_call_that_another_thread_interrupts_ends_where_it_is_resumed() {
        let wal = hex("/d/x.db-wal");
        let trace = read(&[
            format!("7 1.000001 fdatasync(4<{wal}> <unfinished ...>"),
            format!("8 1.000002 pwrite64(4<{wal}>, \"{}\", 1, 0) = 1", hex("a")),
            "7 1.000003 <... fdatasync resumed>) = 0".to_owned(),
        ]);
        let edges: Vec<Edge> = trace.unwrap().moments.iter().map(|moment| moment.edge).collect();
        assert_eq!(edges, [Edge::Begin(0), Edge::Begin(1), Edge::End(1), Edge::End(0)]);
    }

    #[test]
    fn a_call_that_the_model_does_not_know_is_refused() {
        let db = hex("/d/x.db");
        for line in [
            format!("7 1.0 fallocate(3<{db}>, 0, 0, 4096) = 0"),
            format!("7 1.0 rename(\"{db}\", \"{}\") = 0", hex("/d/y")),
            format!("7 1.0 mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_SHARED, 3<{db}>, 0) = 0x7f00"),
            format!("7 1.0 write(3<{db}>, \"{}\", 1) = 1", hex("a")),
            format!("7 1.0 pwrite64(3<{db}>, \"{}\"..., 9, 0) = 9", hex("a")),
        ] {
            assert!(read(std::slice::from_ref(&line)).is_err(), "{line}");
        }
        let elsewhere = format!("7 1.0 rename(\"{}\", \"{}\") = 0", hex("/e/a"), hex("/e/b"));
        assert!(read(&[elsewhere]).unwrap().calls.is_empty());
    }
}
