//! What a file may contain: every byte that reads may return, given what was acknowledged and what was not.

use std::sync::Arc;

/// A change that may have happened in whole, in part, or not at all.
#[derive(Debug, Clone)]
struct Doubt {
    offset: u64,
    end: u64,
    /// The bytes from `offset` on; `None` for zeros.
    bytes: Option<Arc<Vec<u8>>>,
    /// Where in `bytes` the byte at `offset` lies.
    skip: u64,
}

impl Doubt {
    fn at(&self, place: u64) -> Option<u8> {
        if !(self.offset..self.end).contains(&place) {
            return None;
        }
        Some(match &self.bytes {
            Some(bytes) => bytes[(place - self.offset + self.skip) as usize],
            None => 0,
        })
    }

    /// The parts outside of `start..end`.
    fn without(self, start: u64, end: u64) -> impl Iterator<Item = Self> {
        let front = (self.offset < start).then(|| Self {
            end: self.end.min(start),
            ..self.clone()
        });
        let back = (self.end > end).then(|| {
            let offset = self.offset.max(end);
            Self {
                skip: self.skip + (offset - self.offset),
                offset,
                ..self
            }
        });
        front.into_iter().chain(back)
    }
}

/// Which bytes and sizes of one file are allowed.
#[derive(Debug, Clone)]
pub(crate) struct Content {
    /// What was acknowledged last; zeros behind its end.
    bytes: Vec<u8>,
    doubts: Vec<Doubt>,
    /// Inclusive ranges of sizes.
    sizes: Vec<(u64, u64)>,
}

/// A byte that must not be there.
#[derive(Debug)]
pub(crate) struct Wrong(pub(crate) String);

impl Content {
    /// An empty file.
    pub(crate) fn empty() -> Self {
        Self::of(Vec::new())
    }

    /// A file with exactly this content.
    pub(crate) fn of(bytes: Vec<u8>) -> Self {
        Self {
            sizes: vec![(bytes.len() as u64, bytes.len() as u64)],
            bytes,
            doubts: Vec::new(),
        }
    }

    /// The largest size that it may have.
    pub(crate) fn most(&self) -> u64 {
        self.sizes.iter().map(|(_, most)| *most).max().unwrap_or(0)
    }

    /// Records a write, which was acknowledged or not.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8], acknowledged: bool) {
        let end = offset + data.len() as u64;
        if data.is_empty() {
            return;
        }
        for (least, most) in &mut self.sizes {
            *most = end.max(*most);
            if acknowledged {
                *least = end.max(*least);
            }
        }
        if acknowledged {
            self.settle(offset, end);
            if self.bytes.len() < end as usize {
                self.bytes.resize(end as usize, 0);
            }
            self.bytes[offset as usize..end as usize].copy_from_slice(data);
        } else {
            self.doubts.push(Doubt {
                offset,
                end,
                bytes: Some(Arc::new(data.to_vec())),
                skip: 0,
            });
        }
    }

    /// Records a truncation, which was acknowledged or not.
    pub(crate) fn truncate(&mut self, size: u64, acknowledged: bool) {
        if acknowledged {
            self.settle(size, u64::MAX);
            self.bytes.truncate(size as usize);
            self.sizes = vec![(size, size)];
        } else {
            self.sizes.push((size, size));
            self.doubts.push(Doubt {
                offset: size,
                end: u64::MAX,
                bytes: None,
                skip: 0,
            });
        }
    }

    fn settle(&mut self, start: u64, end: u64) {
        let doubts = std::mem::take(&mut self.doubts);
        let rest = doubts
            .into_iter()
            .flat_map(|doubt| doubt.without(start, end));
        self.doubts = rest.collect();
    }

    /// Whether a byte may have this value.
    fn allows(&self, place: u64, value: u8) -> bool {
        let sure = usize::try_from(place)
            .ok()
            .and_then(|place| self.bytes.get(place).copied());
        let doubts = self.doubts.iter();
        sure.unwrap_or(0) == value || doubts.filter_map(|d| d.at(place)).any(|b| b == value)
    }

    /// Whether a byte lies within every size that the file may have had.
    fn reaches(&self, place: u64) -> bool {
        place < self.most()
    }

    fn allows_size(&self, size: u64) -> bool {
        let mut sizes = self.sizes.iter();
        sizes.any(|&(least, most)| (least..=most).contains(&size))
    }

    /// Compares what a read from `offset` on has returned with the model. `asked` is how many bytes it
    /// wanted: fewer mean that the file ends there. `older` is another state that is as good, byte for byte;
    /// `concerns` selects the bytes to compare.
    pub(crate) fn check(
        &self,
        offset: u64,
        asked: u64,
        found: &[u8],
        older: Option<&Self>,
        concerns: impl Fn(u64) -> bool,
    ) -> Result<(), Wrong> {
        let end = offset + found.len() as u64;
        let sizes_ok = |content: &Self| match (found.len() as u64) < asked {
            true if found.is_empty() => content.sizes.iter().any(|(least, _)| *least <= offset),
            true => content.allows_size(end),
            false => content.most() >= end,
        };
        if !sizes_ok(self) && !older.is_some_and(sizes_ok) {
            return Err(Wrong(format!(
                "{} of {asked} bytes from {offset} on; the size may be {:?}",
                found.len(),
                self.sizes
            )));
        }
        let sure = usize::try_from(offset)
            .ok()
            .and_then(|start| self.bytes.get(start..start + found.len()));
        if sure == Some(found) {
            return Ok(());
        }
        for (place, value) in (offset..).zip(found.iter().copied()) {
            let fine = self.allows(place, value)
                || older.is_some_and(|older| older.reaches(place) && older.allows(place, value));
            if !fine && concerns(place) {
                let sure = self.bytes.get(place as usize).copied().unwrap_or(0);
                let wrong = (place..end)
                    .zip(&found[(place - offset) as usize..])
                    .take_while(|(place, value)| !self.allows(*place, **value))
                    .count();
                return Err(Wrong(format!(
                    "byte {place} is {value:#04x}, not {sure:#04x}, and so on for {wrong} bytes \
                     (read {} from {offset} on)",
                    found.len()
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(content: &Content, found: &[u8]) -> bool {
        content.check(0, 100, found, None, |_| true).is_ok()
    }

    #[test]
    fn acknowledged_bytes_are_certain_and_others_are_not() {
        let mut content = Content::of(vec![1; 10]);
        assert!(check(&content, &[1; 10]) && !check(&content, &[1; 9]));
        content.write(8, &[2; 4], false);
        assert!(check(&content, &[1; 10]));
        assert!(check(&content, &[1, 1, 1, 1, 1, 1, 1, 1, 2, 1, 2]));
        assert!(!check(&content, &[1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2]));
        content.write(9, &[3; 1], true);
        assert!(check(&content, &[1, 1, 1, 1, 1, 1, 1, 1, 2, 3, 2, 2]));
        assert!(!check(&content, &[1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2]));
        content.truncate(4, false);
        assert!(check(&content, &[1; 4]) && check(&content, &[1, 1, 1, 1, 1, 1, 0, 0, 2, 3]));
        content.truncate(6, true);
        assert!(check(&content, &[1; 6]) && !check(&content, &[1; 4]));
        content.write(7, &[9], true);
        assert!(check(&content, &[1, 1, 1, 1, 1, 1, 0, 9]));
        assert!(!check(&content, &[1, 1, 1, 1, 1, 1, 2, 9]));
    }
}
