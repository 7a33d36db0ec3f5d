//! What the process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit of open files to the hard one and answers it; `None` is no limit.
pub fn raise_open_files() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        };
        // Raising to the hard limit is always allowed; if a sandbox refuses it, the old limit holds
        // and running out is reported where it happens.
        let _ = setrlimit(Resource::Nofile, raised);
    }
    getrlimit(Resource::Nofile).current
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_limit_is_raised_to_the_hard_one() {
        let raised = super::raise_open_files();
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        assert_eq!(raised, limit.maximum);
    }
}
