//! The one place that knows the order of the stages: `tracking > reranking > expansion > corrective > hybrid`.

use std::sync::Arc;

use super::cuts::FinalCuts;
use crate::model::StageName;
use crate::spi::Retriever;

/// A stage around an inner retriever.
pub type Layer = Box<dyn FnOnce(Arc<dyn Retriever>) -> Arc<dyn Retriever> + Send>;

/// Which stages the configuration switches on; a layer that is absent is not built.
#[derive(Default)]
pub struct StackSwitches {
    /// Fetches again and grades.
    pub corrective: Option<Layer>,
    /// Asks several queries.
    pub expansion: Option<Layer>,
    /// Reorders.
    pub reranking: Option<Layer>,
    /// Records.
    pub tracking: Option<Layer>,
}

impl std::fmt::Debug for StackSwitches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.enabled()).finish()
    }
}

impl StackSwitches {
    /// The enabled stages, outermost first, `hybrid` last.
    pub fn enabled(&self) -> Vec<StageName> {
        let on = |stage: &StageName| match stage {
            StageName::Tracking => self.tracking.is_some(),
            StageName::Reranking => self.reranking.is_some(),
            StageName::Expansion => self.expansion.is_some(),
            StageName::Corrective => self.corrective.is_some(),
            StageName::Hybrid => true,
        };
        StageName::ORDER.into_iter().filter(on).collect()
    }
}

/// The built stack.
#[derive(Debug, Clone)]
pub struct RetrieverStack {
    top: Arc<dyn Retriever>,
}

impl RetrieverStack {
    /// Wraps `hybrid` by the enabled stages, innermost first, and by the last cuts, which are no stage.
    pub fn over(hybrid: Arc<dyn Retriever>, switches: StackSwitches) -> Self {
        let StackSwitches {
            corrective,
            expansion,
            reranking,
            tracking,
        } = switches;
        let top = [corrective, expansion, reranking]
            .into_iter()
            .flatten()
            .fold(hybrid, |inner, layer| layer(inner));
        // The last cuts are over the final scores, and tracking tells what they left.
        let top: Arc<dyn Retriever> = Arc::new(FinalCuts::new(top));
        let top = match tracking {
            Some(layer) => layer(top),
            None => top,
        };
        Self { top }
    }

    /// The outermost retriever.
    pub fn retriever(&self) -> Arc<dyn Retriever> {
        Arc::clone(&self.top)
    }

    /// The stages, outermost first.
    pub fn describe(&self) -> String {
        self.top.describe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Result;
    use crate::model::{Retrieval, RetrievalRequest};
    use crate::spi::RequestContext;
    use async_trait::async_trait;

    #[derive(Debug)]
    struct Named(&'static str, Option<Arc<dyn Retriever>>);

    #[async_trait]
    impl Retriever for Named {
        fn describe(&self) -> String {
            match &self.1 {
                Some(inner) => format!("{} > {}", self.0, inner.describe()),
                None => self.0.to_owned(),
            }
        }

        async fn retrieve(&self, _: &RetrievalRequest, _: &RequestContext) -> Result<Retrieval> {
            Err(crate::error::Error::internal("not asked in this test"))
        }
    }

    fn layer(name: &'static str, on: bool) -> Option<Layer> {
        on.then(|| -> Layer { Box::new(move |inner| Arc::new(Named(name, Some(inner)))) })
    }

    #[test]
    fn every_combination_keeps_the_one_order() {
        for bits in 0u8..16 {
            let on = |bit: u8| bits & (1 << bit) != 0;
            let switches = StackSwitches {
                corrective: layer("corrective", on(0)),
                expansion: layer("expansion", on(1)),
                reranking: layer("reranking", on(2)),
                tracking: layer("tracking", on(3)),
            };
            let names: Vec<&str> = switches.enabled().iter().map(|s| s.name()).collect();
            let stack = RetrieverStack::over(Arc::new(Named("hybrid", None)), switches);
            assert_eq!(stack.describe(), names.join(" > "));
        }
    }
}
