//! Requests that are meant for this server: those whose target is its own identity.

use causeway_wire::fs::{
    Errno, Failure, Generation, Incarnation, Operation, Request, ServerIdentity, Target,
};

use super::home::Home;
use crate::error::failure;

/// The identity of the server of this directory. A metadata server is identified by its metadata's incarnation.
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
        // The operation changes the incarnation, which therefore need not match yet.
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
            capability: None,
            opening: None,
            holder: None,
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
