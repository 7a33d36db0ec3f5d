//! Values that programs attach to communicators, windows and datatypes, by key (MPI 5.0 §7.7).

/// Attributes of an object, in the order in which they were set.
#[derive(Debug, Clone, Default)]
pub struct Attributes(Vec<(i32, usize)>);

impl Attributes {
    /// The value of a key.
    pub fn get(&self, key: i32) -> Option<usize> {
        let found = self.0.iter().find(|(other, _)| *other == key);
        found.map(|(_, value)| *value)
    }

    /// Sets the value of a key, which then counts as the latest; returns the value that it had.
    pub fn set(&mut self, key: i32, value: usize) -> Option<usize> {
        let old = self.remove(key);
        self.0.push((key, value));
        old
    }

    /// Removes a key's value; returns it.
    pub fn remove(&mut self, key: i32) -> Option<usize> {
        let at = self.0.iter().position(|(other, _)| *other == key)?;
        Some(self.0.remove(at).1)
    }

    /// Keys and values, the latest last.
    pub fn all(&self) -> &[(i32, usize)] {
        &self.0
    }

    /// Removes all values.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_is_the_one_that_was_set_last() {
        let mut attributes = Attributes::default();
        for (key, value) in [(1, 10), (2, 20), (3, 30)] {
            assert_eq!(attributes.set(key, value), None);
        }
        assert_eq!(attributes.set(1, 11), Some(10));
        assert_eq!(attributes.all(), [(2, 20), (3, 30), (1, 11)]);
        assert_eq!(attributes.remove(3), Some(30));
        assert_eq!((attributes.get(3), attributes.get(2)), (None, Some(20)));
    }
}
