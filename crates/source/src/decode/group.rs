//! Elements of lists of objects: which of the matches belong to which element.
//!
//! Matches are found in the order of the document, so an element is told by where its matches begin: when one is
//! met, the number of matches so far is noted for every slot of the list, and for the lists inside it. Nothing of
//! the element itself is copied.

use std::ops::Range;

/// The slots and inner groups of one list; both were added one after the other.
#[derive(Clone, Debug, Default)]
pub struct Group {
    pub slots: Range<usize>,
    pub inner: Range<usize>,
}

impl Group {
    fn width(&self) -> usize {
        (self.slots.len() + self.inner.len()).max(1)
    }
}

/// Where the elements of all groups begin, group by group.
#[derive(Debug, Default)]
pub struct Begins(Vec<Vec<u32>>);

impl Begins {
    pub fn clear(&mut self, groups: usize) {
        self.0.iter_mut().for_each(Vec::clear);
        self.0.resize_with(groups, Vec::new);
    }

    /// Notes that an element of a group begins; `count` gives the matches of a slot so far.
    pub fn note(&mut self, at: usize, groups: &[Group], count: impl Fn(usize) -> usize) {
        let group = &groups[at];
        for slot in group.slots.clone() {
            self.0[at].push(narrow(count(slot)));
        }
        for inner in group.inner.clone() {
            let elements = self.count(inner, groups);
            self.0[at].push(narrow(elements));
        }
    }

    fn count(&self, at: usize, groups: &[Group]) -> usize {
        self.0[at].len() / groups[at].width()
    }
}

/// A page of 64 MiB has fewer values than this holds.
fn narrow(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// All groups of a record, and the element that is looked at.
#[derive(Clone, Copy)]
pub struct Scope<'f> {
    pub groups: &'f [Group],
    pub begins: &'f Begins,
    pub element: Option<(usize, usize)>,
}

impl<'f> Scope<'f> {
    /// The matches of a slot that belong here, of `count` altogether.
    pub fn matches(&self, slot: usize, count: usize) -> Range<usize> {
        match self.element {
            None => 0..count,
            Some((group, element)) => self.part(group, element, slot - self.groups[group].slots.start, count),
        }
    }

    /// The elements of a group that belong here.
    pub fn elements(&self, at: usize) -> Range<usize> {
        let count = self.begins.count(at, self.groups);
        match self.element {
            None => 0..count,
            Some((outer, element)) => {
                let group = &self.groups[outer];
                self.part(outer, element, group.slots.len() + at - group.inner.start, count)
            }
        }
    }

    pub fn of(self, group: usize, element: usize) -> Scope<'f> {
        Scope { element: Some((group, element)), ..self }
    }

    /// From where the element begins to where the next one does.
    fn part(&self, group: usize, element: usize, column: usize, count: usize) -> Range<usize> {
        let (begins, width) = (&self.begins.0[group], self.groups[group].width());
        let begin = |element: usize| begins.get(element * width + column).map(|begin| *begin as usize);
        begin(element).unwrap_or(count)..begin(element + 1).unwrap_or(count)
    }
}
