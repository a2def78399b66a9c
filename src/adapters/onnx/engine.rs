//! One model on one thread: padded tensors in, results out.
//!
//! Must not know queues, deadlines or other threads.

use std::borrow::Cow;

use ort::session::{Session, SessionInputValue};
use ort::value::{Outlet, TensorElementType, TensorRef, ValueType};

use super::manifest::{ModelFolder, Task};
use super::output::{self, Output, OutputTensor};
use super::runtime::OnnxRuntime;
use super::tokenize::TokenIds;
use crate::error::{Error, Result};

/// A loaded model that one thread owns.
pub(super) trait Engine: Send {
    /// Runs a batch; one result per input, in order.
    ///
    /// # Errors
    /// The outer error is about the batch as a whole, an inner one about one input.
    fn run(&mut self, batch: &[&TokenIds]) -> Result<Vec<Result<Output>>>;
}

/// What a graph may ask for. Each is an int64 tensor `[batch, tokens]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Feed {
    Ids,
    Mask,
    Types,
}

impl Feed {
    fn named(name: &str) -> Option<Self> {
        match name {
            "input_ids" => Some(Feed::Ids),
            "attention_mask" => Some(Feed::Mask),
            "token_type_ids" => Some(Feed::Types),
            _ => None,
        }
    }

    /// The tensor's data: rows of `longest` numbers.
    fn fill(self, batch: &[&TokenIds], longest: usize, padding: u32) -> Vec<i64> {
        let mut data = Vec::with_capacity(batch.len() * longest);
        for input in batch {
            let row_end = data.len() + longest;
            match self {
                Feed::Ids => data.extend(input.ids.iter().map(|&id| i64::from(id))),
                Feed::Mask => data.resize(data.len() + input.len(), 1),
                Feed::Types => {
                    data.resize(data.len() + input.second, 0);
                    data.resize(data.len() + input.len() - input.second, 1);
                }
            }
            let fill = if self == Feed::Ids { padding.into() } else { 0 };
            data.resize(row_end, fill);
        }
        data
    }
}

/// A session of ONNX Runtime that computes on the calling thread.
pub(super) struct OrtEngine {
    session: Session,
    feeds: Vec<(String, Feed)>,
    folder: ModelFolder,
    padding: u32,
}

impl OrtEngine {
    /// Loads the graph and checks it against the manifest, with a run of `probe`.
    ///
    /// Must not run beside another load: concurrent creation of sessions crashes in native code.
    ///
    /// # Errors
    /// `InvalidField` on `models.dir` when the graph can't be loaded or isn't what the manifest says.
    pub(super) fn load(
        runtime: &OnnxRuntime,
        folder: &ModelFolder,
        padding: u32,
        probe: &TokenIds,
    ) -> Result<Self> {
        let session = session(runtime, folder)
            .map_err(|error| folder.fault("model.onnx can't be loaded").caused_by(error))?;
        let feeds = feeds(folder, session.inputs())?;
        check_output(folder, session.outputs())?;
        let mut engine = Self {
            session,
            feeds,
            folder: folder.clone(),
            padding,
        };
        // Shapes are often symbolic, so only a run shows that the graph does what the manifest says.
        let probed = engine
            .run(&[probe])
            .and_then(|results| results.into_iter().collect());
        probed
            .map_err(|error: Error| folder.fault("a trial run failed").caused_by(error))
            .map(|_: Vec<Output>| engine)
    }
}

impl Engine for OrtEngine {
    fn run(&mut self, batch: &[&TokenIds]) -> Result<Vec<Result<Output>>> {
        let lengths: Vec<usize> = batch.iter().map(|input| input.len()).collect();
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let failed = |error: ort::Error| Error::dependency("the model failed", error);
        let shape = [batch.len(), longest];
        let tensors: Vec<Vec<i64>> = (self.feeds.iter())
            .map(|(_, feed)| feed.fill(batch, longest, self.padding))
            .collect();
        let mut inputs: Vec<(Cow<'_, str>, SessionInputValue<'_>)> = Vec::new();
        for ((name, _), data) in self.feeds.iter().zip(&tensors) {
            let tensor = TensorRef::from_array_view((shape, data.as_slice())).map_err(failed)?;
            inputs.push((name.as_str().into(), tensor.into()));
        }
        let outputs = self.session.run(inputs).map_err(failed)?;
        let (shape, data) = outputs
            .get(self.folder.output())
            .ok_or_else(|| Error::internal("the model gave no output"))?
            .try_extract_tensor::<f32>()
            .map_err(failed)?;
        let tensor = OutputTensor { shape, data };
        output::read(
            self.folder.task(),
            self.folder.dimension() as usize,
            &lengths,
            tensor,
        )
    }
}

fn session(runtime: &OnnxRuntime, folder: &ModelFolder) -> ort::Result<Session> {
    Session::builder(runtime.environment())?
        .with_intra_threads(1)?
        .with_inter_threads(1)?
        .with_parallel_execution(false)?
        // Plans are cached per input shape, and ours vary without end: memory would only grow.
        .with_memory_pattern(false)?
        .commit_from_file(folder.graph())
}

fn feeds(folder: &ModelFolder, inputs: &[Outlet]) -> Result<Vec<(String, Feed)>> {
    let mut feeds = Vec::new();
    for input in inputs {
        let feed = Feed::named(input.name())
            .filter(|_| is_tensor_of(input.dtype(), TensorElementType::Int64))
            .ok_or_else(|| {
                folder.fault(format!(
                    "model.onnx wants {:?} ({}), which isn't an int64 input this program knows",
                    input.name(),
                    input.dtype()
                ))
            })?;
        feeds.push((input.name().to_owned(), feed));
    }
    for needed in [Feed::Ids, Feed::Mask] {
        if !feeds.iter().any(|(_, feed)| *feed == needed) {
            return Err(folder.fault("model.onnx must take input_ids and attention_mask"));
        }
    }
    Ok(feeds)
}

fn check_output(folder: &ModelFolder, outputs: &[Outlet]) -> Result<()> {
    let Some(output) = outputs
        .iter()
        .find(|output| output.name() == folder.output())
    else {
        let names: Vec<&str> = outputs.iter().map(Outlet::name).collect();
        return Err(folder.fault(format!(
            "model.onnx has no output {:?}, only {names:?}",
            folder.output()
        )));
    };
    let is_pair = matches!(folder.task(), Task::CrossEncoder { .. });
    let width = match output.dtype() {
        ValueType::Tensor {
            ty: TensorElementType::Float32,
            shape,
            ..
        } => match **shape {
            // One number a pair may come without an axis of its own.
            [_] if is_pair => Some(1),
            _ => shape.last().copied(),
        },
        _ => None,
    };
    match width {
        Some(width) if width < 0 || width == i64::from(folder.dimension()) => Ok(()),
        Some(width) => Err(folder.fault(format!(
            "model.toml says dimension {}, model.onnx gives {width}",
            folder.dimension()
        ))),
        None => Err(folder.fault("model.onnx's output must be a float32 tensor")),
    }
}

fn is_tensor_of(dtype: &ValueType, element: TensorElementType) -> bool {
    matches!(dtype, ValueType::Tensor { ty, .. } if *ty == element)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_padded_to_the_longest() {
        let single = TokenIds {
            ids: vec![7, 8],
            second: 2,
        };
        let pair = TokenIds {
            ids: vec![1, 2, 3],
            second: 1,
        };
        let batch = [&single, &pair];
        assert_eq!(Feed::Ids.fill(&batch, 3, 9), [7, 8, 9, 1, 2, 3]);
        assert_eq!(Feed::Mask.fill(&batch, 3, 9), [1, 1, 0, 1, 1, 1]);
        assert_eq!(Feed::Types.fill(&batch, 3, 9), [0, 0, 0, 0, 1, 1]);
    }
}
