//! Bodies that read from devices are written once, as `async fn`. Where the host can wait, reading waits, and polling a body once
//! runs it to its end; in a browser the device answers later.

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
};

use crate::Error;

/// Runs a body that has nothing to wait for.
///
/// # Errors
/// The body's; or that it waits, in a browser.
pub(crate) fn now<T>(body: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    match pin!(body).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => Err(Error::NotAwaited),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        cell::{Cell, RefCell},
        future::pending,
    };

    use candor_gguf::Gguf;
    use candor_testing::Tiny;

    use super::*;
    use crate::{
        BatchOptions, Cancel, Device, EmbedOptions, GenerateOptions, LoadOptions, Logits, Model, Observed, Observer,
        Outputs, Placement, Pooling, Role, Session, SessionOptions, Want, progress::Until,
    };

    /// Polls a body a single time.
    fn once<T>(what: &str, body: impl Future<Output = Result<T, Error>>) -> T {
        match pin!(body).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => done.unwrap_or_else(|error| panic!("{what}: {error}")),
            Poll::Pending => panic!("{what} is pending"),
        }
    }

    struct Count(usize);

    impl Observer for Count {
        fn value(&mut self, _: &Observed<'_>) {
            self.0 += 1;
        }
    }

    #[test]
    fn what_waits_is_refused() {
        let done = now(async { Ok(pending::<u32>().await) });
        assert!(matches!(done, Err(Error::NotAwaited)), "{done:?}");
    }

    #[test]
    fn nothing_is_pending_where_the_host_can_wait() {
        for options in devices() {
            let case = format!("{:?} {:?}", options.device, options.placement);
            let gguf = Gguf::from_bytes(Tiny::default().bytes().into()).unwrap();
            let model = once(&case, Model::from_gguf_body(gguf, &options));
            let mut session = model.session(&Default::default()).unwrap();
            let mut seen = Count(0);
            once(&case, session.evaluate_body(&[1, 2], &Cancel::new()));
            once(&case, session.evaluate_each_body(&[3, 4], |_, _| {}));
            once(&case, session.decode_body(5));
            once(&case, session.observe_body(&[6, 7], Role::Prefill, Logits::All, &mut seen));
            assert!(seen.0 > 0, "{case}");
            let mut file = Vec::new();
            once(&case, session.save_body(&mut file));
            once(&case, session.scale_adapters_body(&[]));
            let options = GenerateOptions::default().max_tokens(3).ignore_eos(true);
            let mut generation = once(&case, session.generate_body(&[1, 2, 3], options));
            while once(&case, generation.next_body()).is_some() {}
            assert_eq!(generation.timings().tokens, 3, "{case}");

            let options = BatchOptions::default().sequences(3);
            let mut batch = model.batch(&options).unwrap();
            let id = batch.add().unwrap();
            for want in [Want::Logits, Want::Best(4), Want::Embedding] {
                batch.push(id, &[1, 2, 3], Role::Prefill, Outputs::Each(want)).unwrap();
                once(&case, batch.step_observed_body(None, None));
                assert_eq!(batch.answers().len(), 3, "{case}");
            }
            once(&case, batch.checkpoint_body(id));
            let other = once(&case, batch.fork_body(id, 2));
            once(&case, batch.fork_into_body(id, other, 1));
            once(&case, batch.catch_up_once_body(id));

            let mut sequences = model.sequences(2, &Default::default()).unwrap();
            once(&case, sequences.evaluate_body(0, &[1, 2], &Cancel::new()));
            once(&case, sequences.fork_body(0, 1));
            once(&case, sequences.advance_body(&[3, 4]));
            let options = EmbedOptions::default().pooling(Pooling::Mean);
            let mut embedder = model.embedder(&options).unwrap();
            once(&case, embedder.embed_body(&[vec![1, 2], vec![3]], |_| {}));
        }
    }

    /// Polls a body until it is ready: how often it was not, and what it gives.
    fn polled<T>(body: impl Future<Output = Result<T, Error>>) -> (usize, T) {
        let (mut body, cx) = (pin!(body), &mut Context::from_waker(Waker::noop()));
        let mut pending = 0;
        loop {
            match body.as_mut().poll(cx) {
                Poll::Ready(done) => return (pending, done.unwrap()),
                Poll::Pending => pending += 1,
            }
        }
    }

    #[test]
    fn steps_pause_between_layers_and_end_there() {
        let tokens: Vec<u32> = (1..12).collect();
        for options in devices() {
            let case = format!("{:?} {:?}", options.device, options.placement);
            let gguf = Gguf::from_bytes(Tiny::default().bytes().into()).unwrap();
            let model = once(&case, Model::from_gguf_body(gguf, &options));
            let [mut plain, mut session] =
                [(); 2].map(|()| model.session(&SessionOptions::default().ubatch(4)).unwrap());
            once(&case, plain.evaluate_body(&tokens, &Cancel::new()));

            let mut cancel = Cancel::new();
            let (seen, waits) = (RefCell::new(Vec::new()), Cell::new(false));
            // Each pause is pending once. The second one cancels.
            let pause = |cancel: &Cancel, done, layers| {
                waits.set(!waits.get());
                if !waits.get() {
                    return Poll::Ready(());
                }
                seen.borrow_mut().push((done, layers));
                if seen.borrow().len() == 2 {
                    cancel.cancel();
                }
                Poll::Pending
            };
            let go_on = |session: &mut Session, cancel: &Cancel| {
                let from = session.tokens().len();
                let pause = |done, layers, _: &mut Context<'_>| pause(cancel, done, layers);
                let until = Until { cancel, progress: None, pause: Some(&pause) };
                polled(session.evaluate_for(Want::Logits, &tokens[from..], until))
            };
            assert_eq!(go_on(&mut session, &cancel), (2, false), "{case}");
            assert_eq!(session.tokens(), &tokens[..4], "{case}: of the step that ended nothing is left");
            cancel = Cancel::new();
            assert_eq!(go_on(&mut session, &cancel), (2, true), "{case}");
            assert_eq!(*seen.borrow(), [(1, 2); 4], "{case}");
            assert_eq!(bits(session.logits()), bits(plain.logits()), "{case}");
        }
    }

    fn bits(values: &[f32]) -> Vec<u32> {
        values.iter().map(|value| value.to_bits()).collect()
    }

    /// The processor, the formulas, a GPU where there is one, and a model that lies on both.
    fn devices() -> Vec<LoadOptions> {
        let on = |device| LoadOptions::default().device(device);
        let all = [on(Device::Cpu), on(Device::Reference)].into_iter();
        #[cfg(feature = "gpu")]
        let all = all.chain(candor_testing::has_gpu(candor_gpu::adapters().len()).then(|| on(Device::Gpu))).flat_map(
            |mut options| {
                options.gpu.adapter = Some(candor_gpu::AdapterChoice::Index(0));
                let layers = Tiny::default().layers;
                let parts = vec![(Device::Gpu, 0..1), (Device::Cpu, 1..layers)];
                let placement = Placement::Parts(parts);
                let divided = options.clone().placement(placement);
                let divided = (options.device == Device::Gpu).then_some(divided);
                [options].into_iter().chain(divided)
            },
        );
        all.collect()
    }
}
