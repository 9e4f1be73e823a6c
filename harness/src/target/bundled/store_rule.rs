//! `hurt-store-requests`: requests to the embedded store are hurt by a rule, which knows what a request is.
//!
//! The rule lives in the runner's own process, so there is nothing for the guardian to undo: a runner that dies takes
//! the store along, and one that is stopped stops it.

use std::collections::BTreeMap;

use async_trait::async_trait;
use stormproof_chaos::fault::{Description, Effect, Fault, FaultError};
use stormproof_chaos::journal::Undo;
use stormproof_store::{Rule, RuleCount, Rules};

/// A rule that is in force while the fault lasts.
pub(super) struct HurtStoreRequests {
    rules: Rules,
    /// Its name is ours alone: nobody else's rule is healed.
    rule: Rule,
    description: String,
}

impl HurtStoreRequests {
    /// `tag` makes the rule's name ours alone.
    pub(super) fn new(rules: Rules, rule: &Rule, tag: &str) -> Self {
        let description = rule.to_string();
        let rule = Rule { name: format!("stormproof-{tag}-{}", rule.name), ..rule.clone() };
        Self { rules, rule, description }
    }

    fn count(&self) -> RuleCount {
        self.rules.counts().get(&self.rule.name).copied().unwrap_or_default()
    }
}

#[async_trait]
impl Fault for HurtStoreRequests {
    fn describe(&self) -> Description {
        Description::new("hurt-store-requests", &self.description)
    }

    fn undo(&self) -> Vec<Undo> {
        vec![]
    }

    async fn inject(&mut self) -> Result<(), FaultError> {
        self.rules.add(self.rule.clone()).map_err(|error| FaultError::Refused { source: error.into() })
    }

    async fn effect(&mut self) -> Result<Effect, FaultError> {
        Ok(Effect { bites: self.count().acted > 0, counts: self.counted().await })
    }

    async fn counted(&mut self) -> BTreeMap<String, u64> {
        let RuleCount { matched, acted } = self.count();
        BTreeMap::from([("requests_matched".to_owned(), matched), ("requests_hurt".to_owned(), acted)])
    }

    async fn heal(&mut self) -> Result<(), FaultError> {
        self.rules.remove(&self.rule.name);
        Ok(())
    }

    async fn is_healed(&mut self) -> Result<bool, FaultError> {
        Ok(!self.rules.has(&self.rule.name))
    }
}

#[cfg(test)]
mod tests {
    use stormproof_chaos::journal::Journal;
    use stormproof_chaos::lease::Lease;
    use stormproof_coordinator::config::StoreConfig;
    use stormproof_coordinator::storage::{BlobStore, Deadlines, PutMode, S3BlobStore};
    use stormproof_store::{Effect as StoreEffect, Nth, Operation, S3Server, S3ServerConfig};
    use tokio::time::Duration;

    use super::*;

    fn rule(name: &str) -> Rule {
        Rule::new(name, StoreEffect::InternalError).on(Operation::GetObject).key("*/_metadata")
    }

    fn store_of(server: &S3Server) -> S3BlobStore {
        let settings = S3ServerConfig::default();
        let config = StoreConfig {
            endpoint: format!("http://{}", server.address()),
            bucket: "data".to_owned(),
            access_key: settings.access_key,
            secret_key: settings.secret_key,
        };
        S3BlobStore::new(&config, Deadlines::default()).expect("a client")
    }

    #[tokio::test]
    async fn requests_are_hurt_and_counted_until_it_is_healed_and_other_rules_stay() {
        let server = S3Server::start(S3ServerConfig::default()).await.expect("started");
        server.backend().create_bucket("data").expect("made");
        let theirs = rule("theirs").nth(Nth::only(1_000));
        server.rules().add(theirs).expect("added");
        let store = store_of(&server);
        store.put("job/chk-1/_metadata", "content".into(), PutMode::Overwrite).await.expect("stored");

        let folder = tempfile::tempdir().expect("folder");
        let journal = Journal::open(folder.path().join("journal")).expect("open");
        let fault = HurtStoreRequests::new(server.rules(), &rule("reads fail").nth(Nth::first(2)), "fault");
        assert!(
            fault.describe().to_string().contains("InternalError to GetObject of */_metadata"),
            "{}",
            fault.describe()
        );
        let mut lease = Lease::inject(Box::new(fault), &journal).await.expect("injected");
        assert!(!lease.effect().await.expect("known").bites);
        // The client tries again, so the read succeeds in the end.
        store.get("job/chk-1/_metadata").await.expect("read");
        assert!(lease.effect().await.expect("known").bites);
        store.get("job/chk-1/_metadata").await.expect("read");
        let effect = lease.heal(Duration::from_secs(20)).await.expect("healed");
        assert_eq!((effect.counts["requests_hurt"], effect.counts["requests_matched"]), (2, 4));
        assert!(server.rules().has("theirs") && !server.rules().has("stormproof-fault-reads fail"));
        server.shutdown().await.expect("ended");
    }

    /// A request that the rule is for, and that looks as it would without it, is no effect: the run is vacuous.
    #[tokio::test]
    async fn a_cut_behind_the_end_does_not_bite() {
        let server = S3Server::start(S3ServerConfig::default()).await.expect("started");
        server.backend().create_bucket("data").expect("made");
        server.backend().put("data", "short", "content").expect("stored");
        let rule = Rule::new("cut", StoreEffect::TruncateBody { at_bytes: 7 }).on(Operation::GetObject);
        let mut fault = HurtStoreRequests::new(server.rules(), &rule, "fault");
        fault.inject().await.expect("injected");
        assert_eq!(store_of(&server).get("short").await.expect("read"), "content");
        let effect = fault.effect().await.expect("known");
        assert_eq!((effect.bites, effect.counts["requests_matched"]), (false, 1));
        server.shutdown().await.expect("ended");
    }

    #[tokio::test]
    async fn a_rule_that_is_there_already_is_not_put_in_twice() {
        let rules = Rules::default();
        let mut fault = HurtStoreRequests::new(rules.clone(), &rule("reads fail"), "fault");
        fault.inject().await.expect("injected");
        let error = fault.inject().await.expect_err("refused");
        assert!(matches!(error, FaultError::Refused { .. }), "{error}");
    }
}
