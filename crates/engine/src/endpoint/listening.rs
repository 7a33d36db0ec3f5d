//! Where the instance listens, and listening at more addresses than it began with.

use causeway_sys::secret::Secret;

use super::Endpoint;
use crate::matcher::Matcher;
use crate::types::Error;

impl<M: Matcher> Endpoint<M> {
    /// Sets the cluster's key for connections that are made from now on. Existing connections keep the key that they were made with.
    pub fn set_key(&mut self, key: Secret) -> Result<(), Error> {
        self.check_process()?;
        for slot in &mut self.methods.slots {
            slot.method.set_key(key.clone());
        }
        Ok(())
    }

    /// The addresses that others can reach this process at, as text, best first.
    pub fn listening(&self) -> Vec<String> {
        self.connections.listening.clone()
    }

    /// Listens at one more address. Greetings that are sent from now on contain it.
    pub fn listen(&mut self, address: &str) -> Result<(), Error> {
        self.check_process()?;
        let address: causeway_transport::Address = address.parse()?;
        let schemes = self.methods.schemes();
        let index = schemes.iter().position(|s| *s == address.scheme());
        let index = index.ok_or_else(|| causeway_transport::Error::NoMethod {
            scheme: address.scheme().to_owned(),
            known: schemes.join(", "),
        })?;
        let address = self.methods.get(index).listen(&address)?;
        self.connections.listening.push(address.to_string());
        self.connections.sort_listening();
        let addresses = self.connections.listening.clone();
        self.conversations.introduce_at(addresses);
        Ok(())
    }
}
