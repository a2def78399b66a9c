//! Query texts: the caller's own, and what expansion makes of it.

/// Where a query came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The caller's own.
    Original,
    /// A fixed template.
    Template,
    /// A hypothetical document.
    Hyde,
    /// An abstraction.
    StepBack,
}

/// One query text of a retrieval.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryText {
    /// What grading and the lexical legs see.
    pub text: String,
    /// What the dense leg embeds instead, when there is one.
    pub expanded_text: Option<String>,
    /// Where it came from.
    pub origin: Origin,
}

impl QueryText {
    /// The caller's own query.
    pub fn original(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            expanded_text: None,
            origin: Origin::Original,
        }
    }
}

/// How a query is expanded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ExpansionStrategy {
    /// Not at all.
    #[default]
    None,
    /// A fixed sentence around the question.
    Template,
    /// Hypothetical documents that would answer it.
    Hyde,
    /// A broader question beside it.
    StepBack,
    /// Hypothetical documents and a broader question.
    HydeStepBack,
}

impl ExpansionStrategy {
    /// Whether a language model writes the queries.
    pub const fn needs_generator(self) -> bool {
        match self {
            ExpansionStrategy::None | ExpansionStrategy::Template => false,
            ExpansionStrategy::Hyde
            | ExpansionStrategy::StepBack
            | ExpansionStrategy::HydeStepBack => true,
        }
    }

    /// Whether a broader question is asked.
    pub const fn steps_back(self) -> bool {
        matches!(
            self,
            ExpansionStrategy::StepBack | ExpansionStrategy::HydeStepBack
        )
    }
}

/// How a query is expanded, and how far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpansionOptions {
    /// The strategy.
    pub strategy: ExpansionStrategy,
    /// Hypothetical documents, 1–5.
    pub hypotheticals: u32,
}

impl Default for ExpansionOptions {
    fn default() -> Self {
        Self {
            strategy: ExpansionStrategy::None,
            hypotheticals: 1,
        }
    }
}
