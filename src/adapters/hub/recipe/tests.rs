//! Recipes: the known ones, and what makes one unusable.

use super::*;

const TINY: &str = "# Kept.\nid = \"tiny\"\nlicence = \"MIT\"\nsource = \"a test\"\n\n[sparse]\nthreshold = 0.0\n\n\
    [hub]\nrepository = \"o/tiny\"\nrevision = \"main\"\ngraph = \"onnx/model.onnx\"\ntokenizer = \"tokenizer.json\"\n";

#[test]
fn every_known_name_is_the_id_of_its_template_at_a_pinned_commit() {
    for (name, _) in KNOWN {
        let recipe = Recipe::known(name).expect(name);
        assert_eq!(recipe.id(), name);
        assert_eq!(recipe.revision().len(), 40, "{name}");
        assert!(recipe.graph.sha256.is_some(), "{name}");
        assert!(!recipe.manifest().contains("hub"), "{name}");
        assert!(!recipe.is_calibrated(), "{name}");
    }
}

#[test]
fn an_unknown_name_is_answered_with_the_known_ones() {
    let error = Recipe::known("bge-large").expect_err("unknown");
    assert_eq!(error.field(), Some("NAME"));
    for (name, _) in KNOWN {
        assert!(error.message().contains(name), "{}", error.message());
    }
}

#[test]
fn the_manifest_keeps_its_comments_and_says_what_was_fetched() {
    let recipe = Recipe::parse(TINY).expect("a recipe");
    let manifest = recipe.manifest_at("abc");
    assert!(manifest.starts_with("# Kept.\nid = \"tiny\""), "{manifest}");
    assert!(
        manifest.contains(
            "source = \"a test; pulled from o/tiny at main, commit abc: onnx/model.onnx\""
        )
    );
    for (revision, is) in [("main", true), ("abc", true), ("ab", false), ("mai", false)] {
        assert_eq!(Recipe::is_at(&manifest, revision), is, "{revision}");
    }
    assert!(manifest.contains("[sparse]") && !manifest.contains("[hub]"));
}

#[test]
fn another_revision_has_other_checksums() {
    let known = "ms-marco-MiniLM-L-6-v2";
    let recipe = Recipe::known(known).expect("known");
    let pinned = recipe.revision().to_owned();
    let same = recipe.clone().at_revision(&pinned).expect("a revision");
    assert!(same.graph.sha256.is_some());
    let other = recipe.at_revision("refs/pr/1").expect("a revision");
    assert_eq!(
        (other.revision(), &other.graph.sha256),
        ("refs/pr/1", &None)
    );
    let given = other.with_graph_sha256(&"AB".repeat(32)).expect("a digest");
    assert_eq!(given.graph.sha256, Some("ab".repeat(32)));
    assert!(given.with_graph_sha256("abc").is_err());
    for bad in ["", "..", "a/../b", "/a", "a b", "a?b"] {
        let recipe = Recipe::known(known).expect("known");
        assert!(recipe.at_revision(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn a_recipe_that_could_reach_elsewhere_is_refused() {
    let cases = [
        ("\"tiny\"", "\"../tiny\"", "id"),
        ("\"tiny\"", "\".tiny\"", "id"),
        ("o/tiny", "../../o", "hub.repository"),
        ("o/tiny", "", "hub.repository"),
        ("\"main\"", "\"../main\"", "hub.revision"),
        ("onnx/model.onnx", "/etc/passwd", "hub.graph"),
        ("onnx/model.onnx", "a?b", "hub.graph"),
        ("\"tokenizer.json\"", "\"../t\"", "hub.tokenizer"),
        (
            "[hub]",
            "[hub]\ngraph_sha256 = \"12\"",
            "checksum for model.onnx",
        ),
        ("[hub]", "[hub]\ncolour = 1", "colour"),
        ("[hub]", "[club]", "missing field `hub`"),
    ];
    for (from, to, expected) in cases {
        let error = Recipe::parse(&TINY.replacen(from, to, 1)).expect_err(to);
        assert_eq!(error.field(), Some("--manifest"));
        assert!(error.message().contains(expected), "{}", error.message());
    }
}
