//! A disk that loses its power: what was synced is there, of everything else each block holds what it held after some
//! one of the writes since, and so do the length of a file and the names in the folder.
//!
//! A sync covers the writes that had ended when it began, and only once it has ended itself.

use std::collections::{BTreeMap, HashMap};

use super::trace::{Call, Edge};
use crate::proofs::random::Random;

/// What is written in one piece: by old disks, and by others.
const BLOCKS: [u64; 2] = [512, 4_096];
/// Of a hundred blocks, how many hold all that was written and how many nothing of it; the rest is in between.
const SHARES: [(u64, u64); 6] = [(100, 0), (0, 100), (50, 50), (40, 40), (90, 5), (5, 90)];

/// Files by their names.
pub type Image = BTreeMap<String, Vec<u8>>;

pub struct Disk<'a> {
    calls: &'a [Call],
    folder: &'a str,
    /// A disk that forgets its syncs is what the proof must be able to find.
    forgets: bool,
    files: Vec<File>,
    /// As the process sees them.
    names: BTreeMap<&'a str, usize>,
    /// As they are after a power cut, before any of `renamed`.
    kept_names: BTreeMap<&'a str, usize>,
    renamed: Vec<Change>,
    /// Where a call that has begun makes its change; the folder has none.
    places: HashMap<usize, Option<usize>>,
    /// What a sync that has begun will have covered.
    syncing: HashMap<usize, Vec<usize>>,
}

#[derive(Default)]
struct File {
    kept: Vec<u8>,
    pending: Vec<Change>,
}

/// Not synced yet.
struct Change {
    call: usize,
    ended: bool,
    /// The file that a new name stands for.
    file: Option<usize>,
}

impl<'a> Disk<'a> {
    pub fn new(calls: &'a [Call], folder: &'a str, forgets: bool) -> Disk<'a> {
        Disk {
            calls,
            folder,
            forgets,
            files: Vec::new(),
            names: BTreeMap::new(),
            kept_names: BTreeMap::new(),
            renamed: Vec::new(),
            places: HashMap::new(),
            syncing: HashMap::new(),
        }
    }

    pub fn pass(&mut self, edge: Edge) {
        match edge {
            Edge::Begin(call) => self.begin(call),
            Edge::End(call) => self.end(call),
        }
    }

    fn begin(&mut self, call: usize) {
        match &self.calls[call] {
            Call::Create { path } if !self.names.contains_key(path.as_str()) => {
                self.files.push(File::default());
                self.rename(call, path, Some(self.files.len() - 1));
            }
            Call::Unlink { path } => self.rename(call, path, None),
            Call::Write { path, .. } | Call::Truncate { path, .. } => {
                let Some(file) = self.names.get(path.as_str()).copied() else { return };
                self.places.insert(call, Some(file));
                self.files[file].pending.push(Change { call, ended: false, file: None });
            }
            Call::Sync { path } if !self.forgets => {
                let file = self.names.get(path.as_str()).copied();
                if file.is_some() || path == self.folder {
                    let covered = self.changes(file).iter().filter(|change| change.ended).map(|change| change.call);
                    let covered = covered.collect();
                    self.syncing.insert(call, covered);
                    self.places.insert(call, file);
                }
            }
            _ => {}
        }
    }

    fn rename(&mut self, call: usize, path: &'a str, file: Option<usize>) {
        match file {
            Some(file) => drop(self.names.insert(path, file)),
            None => drop(self.names.remove(path)),
        }
        self.places.insert(call, None);
        self.renamed.push(Change { call, ended: false, file });
    }

    fn changes(&mut self, file: Option<usize>) -> &mut Vec<Change> {
        match file {
            Some(file) => &mut self.files[file].pending,
            None => &mut self.renamed,
        }
    }

    fn end(&mut self, call: usize) {
        let Some(place) = self.places.remove(&call) else { return };
        let Some(covered) = self.syncing.remove(&call) else {
            let change = self.changes(place).iter_mut().rev().find(|change| change.call == call);
            change.into_iter().for_each(|change| change.ended = true);
            return;
        };
        let (kept, pending) =
            std::mem::take(self.changes(place)).into_iter().partition(|change| covered.contains(&change.call));
        *self.changes(place) = pending;
        let kept: Vec<Change> = kept;
        for change in kept {
            match place {
                Some(file) => apply(&mut self.files[file].kept, &self.calls[change.call]),
                None => apply_name(&mut self.kept_names, &self.calls[change.call], change.file),
            }
        }
    }

    /// The files as they could be found after a power cut at this moment.
    pub fn cut(&self, random: &mut Random) -> Image {
        let fate = Fate::draw(random);
        let mut names = self.kept_names.clone();
        // Names are changed through the file system's own journal, which keeps their order.
        for change in &self.renamed[..fate.moment(self.renamed.len(), random)] {
            apply_name(&mut names, &self.calls[change.call], change.file);
        }
        let image =
            |(name, file): (&&str, &usize)| ((*name).to_owned(), self.files[*file].cut(self.calls, &fate, random));
        names.iter().map(image).collect()
    }
}

/// How a disk treats what was not synced when its power is cut.
struct Fate {
    block: u64,
    whole: u64,
    nothing: u64,
    /// Blocks that belong to a file and were never written hold what was there before.
    rubbish: bool,
}

impl Fate {
    fn draw(random: &mut Random) -> Fate {
        let (whole, nothing) = *random.pick(&SHARES);
        Fate { block: *random.pick(&BLOCKS), whole, nothing, rubbish: random.below(4) == 0 }
    }

    /// How many of so many changes are there.
    fn moment(&self, changes: usize, random: &mut Random) -> usize {
        let lot = random.below(100);
        match lot {
            _ if lot < self.whole => changes,
            _ if lot < self.whole + self.nothing => 0,
            _ => random.below(changes as u64 + 1) as usize,
        }
    }
}

impl File {
    fn cut(&self, calls: &[Call], fate: &Fate, random: &mut Random) -> Vec<u8> {
        let mut found = self.kept.clone();
        let mut moments: HashMap<u64, usize> = HashMap::new();
        let mut lengths = vec![self.kept.len()];
        for (number, change) in self.pending.iter().enumerate() {
            let mut length = lengths[number];
            match &calls[change.call] {
                Call::Write { offset, bytes, .. } => {
                    let mut moment = |block| {
                        number < *moments.entry(block).or_insert_with(|| fate.moment(self.pending.len(), random))
                    };
                    write_blocks(&mut found, *offset, bytes, fate.block, &mut moment);
                    length = length.max(*offset as usize + bytes.len());
                }
                Call::Truncate { length: to, .. } => length = *to as usize,
                _ => {}
            }
            lengths.push(length);
        }
        if fate.rubbish {
            spoil(&mut found, self.kept.len(), fate.block, &moments, random);
        }
        found.resize(lengths[fate.moment(self.pending.len(), random)], 0);
        found
    }
}

/// Writes the blocks that made it to the disk.
fn write_blocks(found: &mut Vec<u8>, offset: u64, bytes: &[u8], block: u64, made_it: &mut impl FnMut(u64) -> bool) {
    let (mut from, end) = (offset, offset + bytes.len() as u64);
    if found.len() < end as usize {
        found.resize(end as usize, 0);
    }
    while from < end {
        let to = end.min((from / block + 1) * block);
        if made_it(from / block) {
            let piece = &bytes[(from - offset) as usize..(to - offset) as usize];
            found[from as usize..to as usize].copy_from_slice(piece);
        }
        from = to;
    }
}

/// New blocks of which nothing was written hold anything.
fn spoil(found: &mut [u8], kept: usize, block: u64, moments: &HashMap<u64, usize>, random: &mut Random) {
    let mut lost: Vec<u64> = moments.iter().filter(|(_, moment)| **moment == 0).map(|(block, _)| *block).collect();
    lost.sort_unstable();
    for number in lost {
        let (from, to) = ((number * block) as usize, found.len().min(((number + 1) * block) as usize));
        if from >= kept && from < to {
            found[from..to].fill_with(|| random.next() as u8);
        }
    }
}

fn apply(kept: &mut Vec<u8>, call: &Call) {
    match call {
        Call::Write { offset, bytes, .. } => write_blocks(kept, *offset, bytes, u64::MAX, &mut |_| true),
        Call::Truncate { length, .. } => kept.resize(*length as usize, 0),
        _ => {}
    }
}

fn apply_name<'a>(names: &mut BTreeMap<&'a str, usize>, call: &'a Call, file: Option<usize>) {
    match (call, file) {
        (Call::Create { path }, Some(file)) => drop(names.insert(path, file)),
        (Call::Unlink { path }, _) => drop(names.remove(path.as_str())),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DB: &str = "/d/x.db";

    fn write(offset: u64, bytes: &[u8]) -> Call {
        Call::Write { path: DB.into(), offset, bytes: bytes.to_vec() }
    }

    fn sync(path: &str) -> Call {
        Call::Sync { path: path.into() }
    }

    /// All images that many cuts give after the edges.
    fn cuts(calls: &[Call], edges: &[Edge], forgets: bool) -> Vec<Image> {
        let mut disk = Disk::new(calls, "/d", forgets);
        edges.iter().for_each(|edge| disk.pass(*edge));
        let mut random = Random::new(1);
        (0..200).map(|_| disk.cut(&mut random)).collect()
    }

    fn whole(calls: &[Call]) -> Vec<Edge> {
        (0..calls.len()).flat_map(|call| [Edge::Begin(call), Edge::End(call)]).collect()
    }

    #[test]
    fn what_was_synced_is_there_and_what_was_not_may_be_lost_or_torn() {
        let page = vec![7; 4_096];
        let calls = [Call::Create { path: DB.into() }, write(0, &page), sync(DB), sync("/d"), write(4_096, &page)];
        let images = cuts(&calls, &whole(&calls), false);
        let rest = |image: &Image| image[DB][4_096..].to_vec();
        assert!(images.iter().all(|image| image[DB][..4_096] == page));
        assert!(images.iter().any(|image| rest(image).is_empty()), "lost");
        assert!(images.iter().any(|image| rest(image) == page), "there");
        let torn = |bytes: Vec<u8>| bytes.contains(&7) && bytes != page;
        assert!(images.iter().any(|image| torn(rest(image))), "torn");
    }

    #[test]
    fn a_sync_covers_only_what_had_ended_when_it_began_and_only_when_it_has_ended() {
        let calls = [Call::Create { path: DB.into() }, sync("/d"), write(0, b"a"), sync(DB), write(0, b"b")];
        let before = whole(&calls[..2]);
        let lost = |edges: &[Edge]| {
            let edges = [&before, edges].concat();
            cuts(&calls, &edges, false).iter().any(|image| !image[DB].starts_with(b"a"))
        };
        let (write, sync) = ((Edge::Begin(2), Edge::End(2)), (Edge::Begin(3), Edge::End(3)));
        assert!(!lost(&[write.0, write.1, sync.0, sync.1]));
        assert!(lost(&[write.0, write.1, sync.0]), "it has not ended");
        assert!(lost(&[write.0, sync.0, write.1, sync.1]), "the write had not ended");
        assert!(lost(&[sync.0, write.0, write.1, sync.1]), "the write had not begun");
    }

    #[test]
    fn names_are_kept_by_a_sync_of_the_folder() {
        let calls =
            [Call::Create { path: DB.into() }, write(0, b"a"), sync(DB), sync("/d"), Call::Unlink { path: DB.into() }];
        let named = |edges: &[Edge]| cuts(&calls, edges, false).iter().filter(|image| image.contains_key(DB)).count();
        let edges = whole(&calls);
        assert!((1..200).contains(&named(&edges[..6])), "the file was synced, its name was not");
        assert_eq!(named(&edges[..8]), 200);
        assert!((1..200).contains(&named(&edges)), "the end of the name was not synced");
    }

    #[test]
    fn a_disk_that_forgets_its_syncs_loses_what_was_acknowledged() {
        let calls = [Call::Create { path: DB.into() }, sync("/d"), write(0, b"a"), sync(DB)];
        let lost = |forgets| {
            let images = cuts(&calls, &whole(&calls), forgets);
            images.iter().filter(|image| image.get(DB).is_none_or(|bytes| bytes != b"a")).count()
        };
        assert_eq!(lost(false), 0);
        assert!(lost(true) > 0);
    }
}
