//! Requests to a metadata service, and a dump of its contents.

use std::hash::{DefaultHasher, Hash, Hasher};

use causeway_fs::meta::Service;
use causeway_wire::fs::{
    Body, Caller, Entry, Node, ObjectId, Operation, Place, Reply, ReplyBody, Request, Target,
    Timestamp,
};

pub(crate) fn place(path: &str) -> Place {
    Place {
        base: ObjectId::ROOT,
        path: path.as_bytes().to_vec(),
    }
}

/// A request by user 0 that is not remembered.
pub(crate) fn request(operation: Operation) -> Request {
    Request {
        reply_tag: 0,
        target: Target::default(),
        client: 1,
        slot: 0,
        sequence: 0,
        caller: Caller::default(),
        capability: None,
        opening: None,
        holder: None,
        operation,
    }
}

pub(crate) fn time(seconds: i64) -> Timestamp {
    Timestamp {
        seconds,
        nanoseconds: 0,
    }
}

/// The reply to a request that changes nothing.
pub(crate) fn ask(service: &Service, operation: Operation) -> Reply {
    service
        .reader()
        .answer(&request(operation))
        .expect("the request changes nothing")
}

pub(crate) fn get(service: &Service, object: ObjectId) -> Node {
    let operation = Operation::GetNode {
        object,
        content: true,
    };
    match ask(service, operation).result {
        Ok(ReplyBody::Node(node)) => *node,
        other => panic!("object {object:?}: {other:?}"),
    }
}

pub(crate) fn list(service: &Service, object: ObjectId) -> Vec<Entry> {
    let (mut all, mut after) = (Vec::new(), Vec::new());
    loop {
        let operation = Operation::ReadDirectory {
            object,
            after,
            limit: 1000,
            attributes: false,
        };
        match ask(service, operation).result {
            Ok(ReplyBody::Entries { entries, end }) => {
                after = entries
                    .last()
                    .map(|entry| entry.name.clone())
                    .unwrap_or_default();
                all.extend(entries);
                if end {
                    return all;
                }
            }
            other => panic!("directory {object:?}: {other:?}"),
        }
    }
}

/// Every path with a description of its object; object numbers are left out.
pub(crate) fn dump(service: &Service) -> Vec<String> {
    let (mut lines, mut todo) = (Vec::new(), vec![(String::new(), ObjectId::ROOT)]);
    while let Some((path, object)) = todo.pop() {
        let node = get(service, object);
        let attributes = &node.attributes;
        let body = match &node.body {
            Body::Stuffed {
                content: Some(content),
                moving,
                ..
            } if content.len() > 64 => {
                let mut hash = DefaultHasher::new();
                content.hash(&mut hash);
                format!("{:016x} {moving}", hash.finish())
            }
            Body::Stuffed {
                content, moving, ..
            } => format!("{content:?} {moving}"),
            Body::Link(target) => String::from_utf8_lossy(target).into(),
            Body::Striped { version, .. } => format!("striped {version}"),
            Body::Special { device, .. } => format!("device {device}"),
            Body::Directory(_) => {
                for entry in list(service, object) {
                    let name = String::from_utf8_lossy(&entry.name);
                    todo.push((format!("{path}/{name}"), entry.object));
                }
                String::new()
            }
        };
        lines.push(format!(
            "{path} {:?} links {} size {} modified {} {body}",
            attributes.kind, attributes.links, attributes.size, attributes.modified.seconds
        ));
    }
    lines.sort();
    lines
}

/// The findings of a whole check without repair.
pub(crate) fn findings(service: &Service) -> Vec<String> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let operation = Operation::Check {
            after: after.clone(),
            repair: false,
        };
        match ask(service, operation).result {
            Ok(ReplyBody::Checked { next, findings, .. }) => {
                all.extend(findings);
                if next.is_none() {
                    return all;
                }
                assert!(next > after, "the check does not proceed");
                after = next;
            }
            other => panic!("check: {other:?}"),
        }
    }
}
