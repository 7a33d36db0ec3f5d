//! The connections of the simulated nodes, and packets that methods hold for a while.

use std::collections::VecDeque;

use causeway_transport::{PeerError, TransferError};

use super::{LIMITS, Node, Patterns, World};

/// A connection: the end of the node that has made it, then the other one.
pub(super) struct Connection {
    pub(super) ends: [End; 2],
}

pub(super) struct End {
    pub(super) node: usize,
    /// None until the node that is called notices.
    pub(super) peer: Option<u32>,
    /// Packets that it has sent and that have not arrived.
    pub(super) sent: VecDeque<Vec<u8>>,
    /// Packets behind these that its method holds.
    pub(super) held: VecDeque<Vec<u8>>,
    /// It has closed the connection: the other end notices behind the last packet.
    pub(super) closed: bool,
}

impl End {
    pub(super) fn flush(&mut self) {
        self.sent.append(&mut self.held);
    }
}

impl<M: Patterns> World<M> {
    /// Makes a connection if there is none.
    pub(super) fn connect(&mut self, node: usize, other: usize) {
        let entry = &mut self.nodes[node];
        let peer = entry.peers[other];
        if !entry.all.is_closed(peer) {
            return;
        }
        entry.all.open(peer, LIMITS);
        let number = self.next_connection;
        self.next_connection += 1;
        entry.links.insert(peer, (number, 0));
        let end = |node, peer| End {
            node,
            peer,
            sent: VecDeque::new(),
            held: VecDeque::new(),
            closed: false,
        };
        let ends = [end(node, Some(peer)), end(other, None)];
        self.connections.insert(number, Connection { ends });
    }

    /// A node closes the connection of a peer, if it has one.
    pub(super) fn drop_link(&mut self, node: usize, peer: u32) {
        let Some((number, side)) = self.nodes[node].links.remove(&peer) else {
            return;
        };
        self.fail_transfers(number);
        let connection = self.connections.get_mut(&number).expect("it has an end");
        connection.ends[side].flush();
        connection.ends[side].closed = true;
        if connection.ends[1 - side].closed {
            self.connections.remove(&number);
        }
    }

    pub(super) fn fail_transfers(&mut self, number: u64) {
        let (gone, stay): (Vec<_>, Vec<_>) = std::mem::take(&mut self.moving)
            .into_iter()
            .partition(|moving| moving.connection == number);
        self.moving = stay;
        for moving in gone {
            let error = TransferError::Peer(PeerError::Disconnected);
            let all = &mut self.nodes[moving.node].all;
            all.handle_transfer_done(moving.transfer.token, Err(error));
        }
    }

    /// A node that has nothing to send to another one leaves.
    pub(super) fn leave(&mut self, node: usize) {
        let other = self.other(node);
        let entry = &mut self.nodes[node];
        let peer = entry.peers[other];
        if entry.all.is_up(peer) && entry.all.operations_of(peer).is_empty() {
            entry.all.leave(peer);
            self.outcome.partings += 1;
        }
    }

    /// Breaks a connection, which both ends notice at once.
    pub(super) fn break_connection(&mut self) {
        let at = self.random.below(self.connections.len());
        let Some(&number) = self.connections.keys().nth(at) else {
            return;
        };
        self.fail_transfers(number);
        let connection = self.connections.remove(&number).expect("just found");
        for end in connection.ends.iter().filter(|end| !end.closed) {
            if let Some(peer) = end.peer {
                let entry = &mut self.nodes[end.node];
                entry.links.remove(&peer);
                entry.all.handle_lost(peer, PeerError::Disconnected);
            }
        }
    }

    /// The method of a node sends all that it holds.
    pub(super) fn flush(&mut self, node: usize) {
        let ends = self.connections.values_mut();
        let ends = ends.flat_map(|connection| &mut connection.ends);
        ends.filter(|end| end.node == node).for_each(End::flush);
    }

    pub(super) fn complete_held(&mut self, node: usize) {
        let Node { all, links, .. } = &mut self.nodes[node];
        let holds = |(number, side): &(u64, usize)| {
            let connection = self.connections.get(number);
            connection.is_some_and(|connection| !connection.ends[*side].held.is_empty())
        };
        all.complete_held(|peer| links.get(&peer).is_some_and(holds));
        for (peer, link) in links.iter().filter(|(_, link)| holds(link)) {
            assert!(
                all.holds_send(*peer),
                "node {node} holds packets, and no send waits: {link:?}"
            );
        }
    }
}
