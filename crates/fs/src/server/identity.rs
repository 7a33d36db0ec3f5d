//! Which requests are meant for this server: those whose target is its own identity.

use causeway_wire::fs::{
    Errno, Failure, Generation, Greeting, Incarnation, Operation, ReplyBody, Request,
    ServerIdentity, Target,
};
use causeway_wire::home::Enrollment;

use super::events::Loop;
use super::home::Home;
use crate::error::failure;

/// The identity of this directory's server. A metadata server goes by its metadata's incarnation.
pub(super) fn of(home: &Home, metadata: Option<Incarnation>) -> ServerIdentity {
    let found = home.identity();
    let enrolled = home.enrolled().filter(|_| found.io);
    let known = metadata.or(enrolled.map(|enrollment| enrollment.incarnation));
    ServerIdentity {
        file_system: found.file_system,
        name: found.server.clone(),
        metadata: found.metadata,
        io: found.io,
        generation: found.generation,
        index: enrolled.map(|enrollment| enrollment.index),
        incarnation: known.unwrap_or(Incarnation::NONE),
    }
}

/// Refuses a request that is meant for another server.
pub(super) fn check(own: &ServerIdentity, request: &Request) -> Result<(), Failure> {
    let (target, here) = (request.target, own.target());
    match request.operation {
        Operation::Hello { .. } => return Ok(()),
        // The incarnation, which it changes, need not match yet.
        Operation::Enroll { .. }
            if (target.file_system, target.generation) == (here.file_system, here.generation) =>
        {
            return Ok(());
        }
        _ if target == here => return Ok(()),
        _ => {}
    }
    Err(refusal(own, target))
}

#[cold]
fn refusal(own: &ServerIdentity, target: Target) -> Failure {
    let here = own.target();
    if target.file_system == here.file_system
        && target.generation == here.generation
        && here.incarnation.is_none()
    {
        // Only a client that has this server's identity sends such a request; it requests the identity again.
        let message = format!(
            "server {} has no record any more of the metadata that it belongs to",
            own.name
        );
        return failure(Errno::WRONG_TARGET, message);
    }
    let none = target.generation == Generation::NONE;
    let wanted = match none {
        true => "no server in particular".to_owned(),
        false => format!(
            "the one of generation {} of file system {:032x}, by metadata of incarnation {}",
            target.generation, target.file_system, target.incarnation
        ),
    };
    let message = format!(
        "the request is meant for {wanted}; this is server {}, generation {}, of file system {:032x}, with \
         metadata of incarnation {}",
        own.name, here.generation, here.file_system, here.incarnation
    );
    failure(Errno::WRONG_TARGET, message)
}

impl Loop {
    /// This server's identity.
    pub(super) fn greet(&self, layout_from: u16) -> ReplyBody {
        ReplyBody::Hello(Box::new(Greeting {
            identity: self.identity.clone(),
            pid: std::process::id(),
            uptime_ms: self.started.elapsed().as_millis() as u64,
            boot: self.boot,
            failed_syncs: self.failed_syncs(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            layout: self.layout_part(layout_from),
        }))
    }

    /// Accepts a number from the metadata server, once, or again if an operator asks for it.
    pub(super) fn enroll(
        &mut self,
        wanted: Enrollment,
        replace: bool,
    ) -> Result<ReplyBody, Failure> {
        self.store()?;
        let own = &self.identity;
        let other_metadata = match self.home.enrolled() {
            Some(found) if found == wanted => return Ok(ReplyBody::Done),
            Some(found) => Some(found),
            None => None,
        };
        if own.metadata && own.incarnation != wanted.incarnation {
            return Err(failure(
                Errno::WRONG_TARGET,
                format!(
                    "server {} keeps metadata of its own, {}",
                    own.name, own.incarnation
                ),
            ));
        }
        if let Some(found) = other_metadata
            && !replace
        {
            return Err(failure(
                Errno::EEXIST,
                format!(
                    "server {} belongs to metadata of incarnation {} as its number {}; it cannot be number {} \
                     of metadata of incarnation {}",
                    own.name, found.incarnation, found.index, wanted.index, wanted.incarnation
                ),
            ));
        }
        self.home.enroll(wanted).map_err(|error| {
            failure(
                Errno::EIO,
                format!("the directory of server {}: {error}", own.name),
            )
        })?;
        self.identity.index = Some(wanted.index);
        self.identity.incarnation = wanted.incarnation;
        if let Some(store) = &self.store {
            store.set_incarnation(wanted.incarnation);
        }
        Ok(ReplyBody::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_wire::fs::Caller;

    fn own() -> ServerIdentity {
        ServerIdentity {
            file_system: 1,
            name: "io0".to_owned(),
            metadata: false,
            io: true,
            generation: Generation(2),
            index: Some(0),
            incarnation: Incarnation(3),
        }
    }

    fn request(target: Target, operation: Operation) -> Request {
        Request {
            reply_tag: 0,
            target,
            client: 0,
            slot: 0,
            sequence: 0,
            caller: Caller::default(),
            operation,
        }
    }

    #[test]
    fn only_requests_for_this_very_server_are_carried_out() {
        let status = |target| check(&own(), &request(target, Operation::StorageStatus));
        let right = own().target();
        assert_eq!(status(right), Ok(()));
        let wrong = [
            Target {
                file_system: 9,
                ..right
            },
            Target {
                generation: Generation(9),
                ..right
            },
            Target {
                incarnation: Incarnation(9),
                ..right
            },
            Target::default(),
        ];
        for target in wrong {
            let failure = status(target).unwrap_err();
            assert_eq!(failure.errno, Errno::WRONG_TARGET);
            assert!(
                failure.message.contains("server io0"),
                "{}",
                failure.message
            );
            assert_eq!(
                check(
                    &own(),
                    &request(
                        target,
                        Operation::Hello {
                            layout_from: 0,
                            timeout_s: 30
                        }
                    )
                ),
                Ok(())
            );
        }
        let enroll = |target| {
            let operation = Operation::Enroll {
                index: 0,
                incarnation: Incarnation(9),
                replace: false,
            };
            check(&own(), &request(target, operation))
        };
        assert_eq!(enroll(wrong[2]), Ok(()));
        assert!(enroll(wrong[0]).is_err() && enroll(wrong[1]).is_err());
    }

    #[test]
    fn a_server_that_has_forgotten_its_metadata_makes_clients_ask_anew() {
        let own = ServerIdentity {
            index: None,
            incarnation: Incarnation::NONE,
            ..own()
        };
        let target = Target {
            incarnation: Incarnation(3),
            ..own.target()
        };
        let failure = check(&own, &request(target, Operation::StorageStatus)).unwrap_err();
        assert_eq!(failure.errno, Errno::WRONG_TARGET);
    }
}
