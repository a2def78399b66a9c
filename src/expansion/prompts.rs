//! The prompts, one file and version each, and the angles that make hypothetical documents differ.

use crate::model::QueryText;

const HYDE: &str = include_str!("prompts/hyde.v1.txt");
const STEP_BACK: &str = include_str!("prompts/step_back.v1.txt");
const TEMPLATE: &str = include_str!("prompts/template.v1.txt");

/// Where a hypothetical document might stand: equal prompts give equal answers, so each gets an angle of its own.
const ANGLES: [&str; 5] = [
    "The passage is from a definition or overview.",
    "The passage is from step-by-step instructions.",
    "The passage is from the description of a case or an example.",
    "The passage is from a rule, a policy or a specification.",
    "The passage is from a discussion of problems and their causes.",
];

/// The instruction for the hypothetical document of this index (from 0).
pub(super) fn hypothetical(index: usize) -> String {
    format!("{HYDE}{}\n", ANGLES[index % ANGLES.len()])
}

/// The instruction for a broader question.
pub(super) fn step_back() -> String {
    STEP_BACK.to_owned()
}

/// The question in its fixed sentence.
pub(super) fn template(query: &QueryText) -> String {
    TEMPLATE.trim_end().replace("{question}", query.text.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_angle_gives_another_instruction() {
        let all: std::collections::BTreeSet<String> = (0..5).map(hypothetical).collect();
        assert_eq!(all.len(), 5);
    }

    #[test]
    fn the_template_holds_the_question_as_it_is() {
        let text = template(&QueryText::original(" what is {question}? "));
        assert!(text.ends_with("answers the question: what is {question}?"));
    }
}
