"""What the network sees of the data: numbers, vectors, images, or whatever a module of the user's makes of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import torch
from torch import Tensor, nn

from ars.errors import EmbeddingError, ObservationShapeError

__all__ = ["CALIBRATION_ROWS", "ObservationEncoder", "Standardiser"]

CALIBRATION_ROWS: Final = 20_000  # rows from which the scale of an observation is learnt
_FINE_UP_TO: Final = 32  # an observation of at most so many numbers is also seen through fast waves
_FREQUENCIES: Final = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)  # radians per standard deviation
_SMALLEST_IMAGE: Final = 8

Shape = tuple[int, ...]


class Standardiser(nn.Module):
    """(x - mean) / std, per element or, for images, for all pixels alike. Both are learnt from the first rows seen in
    training, then fixed, and saved with the network."""

    mean: Tensor
    second: Tensor
    rows: Tensor

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(shape, dtype=torch.float64))
        self.register_buffer("second", torch.ones(shape, dtype=torch.float64))  # mean of squared distances
        self.register_buffer("rows", torch.zeros((), dtype=torch.int64))

    def known(self) -> bool:
        """Whether enough rows have been seen."""
        return int(self.rows) >= CALIBRATION_ROWS

    @torch.no_grad()
    def learn(self, x: Tensor) -> None:
        """Takes rows [n, *shape] into account, unless enough have been seen. (Chan's update of mean and variance.)"""
        if self.known() or len(x) == 0:
            return
        seen = int(self.rows)
        x = x.to(torch.float64)
        axes = tuple(range(x.ndim - self.mean.ndim))
        mean = x.mean(dim=axes)
        second = (x - mean).square().mean(dim=axes)
        share = len(x) / (seen + len(x))
        shift = mean - self.mean
        before = self.second if seen else torch.zeros_like(self.second)
        self.second.copy_((1 - share) * before + share * second + share * (1 - share) * shift * shift)
        self.mean.add_(share * shift)
        self.rows.add_(len(x))

    def forward(self, x: Tensor) -> Tensor:
        std = torch.sqrt(self.second)
        std = torch.where(std > 1e-12 * self.mean.abs() + 1e-300, std, 1.0)  # constant: its distance in its own units
        return ((x.to(torch.float64) - self.mean) / std).to(torch.float32)


def _mlp(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, outputs)
    )


class NumbersEncoder(nn.Module):
    """All observations that are numbers or flat vectors, seen together by one feed-forward network. With ``masked``, it
    sees 0 for a number that is missing, and a mark."""

    def __init__(self, shapes: Mapping[str, Shape], outputs: int, hidden: int, masked: bool = False) -> None:
        super().__init__()
        self.masked = masked
        self.sizes = {name: math.prod(shape) for name, shape in shapes.items()}
        self.scales = nn.ModuleList(Standardiser((size,)) for size in self.sizes.values())
        width = sum(2 * size + 2 * len(_FREQUENCIES) * size * (size <= _FINE_UP_TO) for size in self.sizes.values())
        width += sum(self.sizes.values()) if masked else 0
        self.network = _mlp(width, hidden, outputs)

    def learn(self, observation: Mapping[str, Tensor]) -> None:
        for (name, size), scale in zip(self.sizes.items(), self.scales, strict=True):
            assert isinstance(scale, Standardiser)
            scale.learn(observation[name].reshape(-1, size))

    def forward(self, observation: Mapping[str, Tensor]) -> Tensor:
        columns = []
        for (name, size), scale in zip(self.sizes.items(), self.scales, strict=True):
            z = scale(observation[name].reshape(-1, size))
            missing = torch.isnan(z) if self.masked else None
            if missing is not None:
                z = z.masked_fill(missing, 0.0)
                columns.append(missing.to(z.dtype))
            columns += [torch.clamp(z, -10.0, 10.0), torch.asinh(z)]
            if size <= _FINE_UP_TO:
                angles = z.unsqueeze(1) * z.new_tensor(_FREQUENCIES).unsqueeze(-1)  # [n, frequencies, size]
                waves = torch.stack([torch.sin(angles), torch.cos(angles)], dim=2)  # [n, frequencies, 2, size]
                if missing is not None:
                    waves = waves.masked_fill(missing[:, None, None, :], 0.0)
                columns.append(waves.flatten(1))
        out: Tensor = self.network(torch.cat(columns, dim=-1))
        return out


class ImageEncoder(nn.Module):
    """A small convolutional network for one channel of any size from 8 x 8. With ``masked``, marks of missing pixels
    are a channel of their own."""

    def __init__(self, shape: Shape, outputs: int, hidden: int, masked: bool = False) -> None:
        super().__init__()
        self.masked = masked
        self.scale = Standardiser(())
        self.features = nn.Sequential(
            nn.Conv2d(3 if masked else 2, 16, 3, padding=1), nn.SiLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.SiLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 32, 3, padding=1), nn.SiLU(), nn.Flatten(),
        )  # fmt: skip
        size = 32 * (shape[0] // 4) * (shape[1] // 4)
        self.network = _mlp(size, hidden, outputs)

    def learn(self, x: Tensor) -> None:
        self.scale.learn(x)

    def forward(self, x: Tensor) -> Tensor:
        z = self.scale(x)
        marks = [torch.isnan(z)] if self.masked else []
        for missing in marks:
            z = z.masked_fill(missing, 0.0)
        channels = [torch.clamp(z, -30.0, 30.0), torch.asinh(z), *(missing.to(z.dtype) for missing in marks)]
        out: Tensor = self.network(self.features(torch.stack(channels, dim=1)))
        return out


class UserEncoder(nn.Module):
    """A module of the user's, whose output is checked. It gets the data as they are: float32 [n, *shape]. With
    ``masked``, it gets them with 0 for numbers that are missing, and which ones are: bool [n, *shape]."""

    def __init__(self, name: str, module: nn.Module, shape: Shape, outputs: int, masked: bool = False) -> None:
        super().__init__()
        self.name, self.outputs, self.masked = name, outputs, masked
        self.module = module
        was_training = module.training
        module.eval()
        with torch.no_grad():
            try:
                out = module(*self._given(torch.zeros((2, *shape))))
            except Exception as error:
                how = (
                    " (for missing data its forward takes two tensors of that shape: the numbers, 0 where one is "
                    "missing, and a bool that is true there)"
                )
                raise EmbeddingError(
                    f"the embedding for observation {name!r} failed on a batch of shape {(2, *shape)}"
                    f"{how if masked else ''}: {type(error).__name__}: {error}"
                ) from error
        module.train(was_training)
        self._check(out, 2)

    def _check(self, out: object, rows: int) -> Tensor:
        expected = (rows, self.outputs)
        if not isinstance(out, Tensor):
            raise EmbeddingError(
                f"the embedding for observation {self.name!r} returned {type(out).__name__}, expected a "
                f"tensor of shape {expected}"
            )
        if tuple(out.shape) != expected:
            raise EmbeddingError(
                f"the embedding for observation {self.name!r} returned shape {tuple(out.shape)}, expected {expected}: "
                f"one row per trace, and observe_dim={self.outputs} numbers; change its last layer or observe_dim"
            )
        return out

    def _given(self, x: Tensor) -> tuple[Tensor, ...]:
        if not self.masked:
            return (x,)
        missing = torch.isnan(x)
        return x.masked_fill(missing, 0.0), missing

    def forward(self, x: Tensor) -> Tensor:
        return self._check(self.module(*self._given(x)), len(x))


def _is_image(shape: Shape) -> bool:
    return len(shape) == 2 and min(shape) >= _SMALLEST_IMAGE


class ObservationEncoder(nn.Module):
    """All observations of a trace as one vector [n, outputs]. With ``masked``, NaN is a number that is missing."""

    def __init__(
        self,
        shapes: Mapping[str, Shape],
        modules: Mapping[str, nn.Module],
        outputs: int,
        hidden: int,
        masked: bool = False,
    ) -> None:
        super().__init__()
        self.masked = masked
        self.shapes = {name: tuple(int(n) for n in shape) for name, shape in sorted(shapes.items())}
        for name, shape in self.shapes.items():
            if any(n < 1 for n in shape):
                raise ObservationShapeError(f"observation {name!r} has shape {shape}, which holds no numbers")
        for name in modules:
            if name not in self.shapes:
                raise EmbeddingError(
                    f"an embedding was given for observation {name!r}, but the simulator observes "
                    f"{_listed(self.shapes)}"
                )
        self.outputs = outputs
        self.user_names = tuple(sorted(modules))
        self.image_names = tuple(n for n, s in self.shapes.items() if n not in modules and _is_image(s))
        plain = {n: s for n, s in self.shapes.items() if n not in modules and n not in self.image_names}
        self.numbers = NumbersEncoder(plain, outputs, hidden, masked) if plain else None
        self.images = nn.ModuleList(ImageEncoder(self.shapes[n], outputs, hidden, masked) for n in self.image_names)
        self.users = nn.ModuleList(UserEncoder(n, modules[n], self.shapes[n], outputs, masked) for n in self.user_names)
        parts = (self.numbers is not None) + len(self.images) + len(self.users)
        self.join = _mlp(parts * outputs, hidden, outputs) if parts > 1 else None

    @property
    def user_modules(self) -> dict[str, nn.Module]:
        """The user's own modules, by observation."""
        return {name: user.module for name, user in zip(self.user_names, self.users, strict=True)}  # type: ignore[misc]

    def checked(self, observation: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The observations that the network knows, in their shapes; a flat vector is put into its shape."""
        if set(observation) != set(self.shapes):
            absent = [name for name in self.shapes if name not in observation]
            raise ObservationShapeError(
                f"the network was made for the observations {_listed(self.shapes)}, but {_listed(observation)} were "
                f"given{_held(absent[0]) if absent else ''}"
            )
        out: dict[str, Tensor] = {}
        for name, shape in self.shapes.items():
            x = observation[name]
            if x.ndim < 1 or math.prod(x.shape[1:]) != math.prod(shape) or (x.ndim > 2 and tuple(x.shape[1:]) != shape):
                raise ObservationShapeError(
                    f"observation {name!r} has shape {tuple(x.shape[1:])}, the network was made for {shape}"
                )
            if not bool(torch.isfinite(x).all()):
                self._check_numbers(name, x)
            out[name] = x.reshape(len(x), *shape)
        return out

    def _check_numbers(self, name: str, x: Tensor) -> None:
        """Of data that are not all finite: what is infinite is wrong, and what is missing may be."""
        infinite = torch.isinf(x)
        wrong = infinite if bool(infinite.any()) else torch.isnan(x)
        row = int(torch.nonzero(wrong.reshape(len(x), -1).any(dim=-1))[0])
        if wrong is infinite:
            raise ObservationShapeError(f"observation {name!r} has an infinite number (row {row} of the batch)")
        if self.masked:
            return
        raise ObservationShapeError(
            f"observation {name!r} has NaN, a number that was not observed (row {row} of the batch), and the network "
            "was trained on complete data. Train one with missing=0.2 (ars train --missing 0.2), or adapt to "
            "these data without a network (adapt=True, ars infer --adapt)"
        )

    def learn(self, observation: Mapping[str, Tensor]) -> None:
        """Takes these data into account for the scales; traces with a number that is missing are left out."""
        observation = self.checked(observation)
        if self.masked and observation:
            missing = [torch.isnan(x).reshape(len(x), -1).any(dim=-1) for x in observation.values()]
            complete = ~torch.stack(missing).any(dim=0)
            observation = {name: x[complete] for name, x in observation.items()}
        if self.numbers is not None:
            self.numbers.learn(observation)
        for name, image in zip(self.image_names, self.images, strict=True):
            assert isinstance(image, ImageEncoder)
            image.learn(observation[name])

    def forward(self, observation: Mapping[str, Tensor]) -> Tensor:
        observation = self.checked(observation)
        parts: list[Tensor] = [] if self.numbers is None else [self.numbers(observation)]
        parts += [image(observation[name]) for name, image in zip(self.image_names, self.images, strict=True)]
        parts += [
            user(observation[name].to(torch.float32)) for name, user in zip(self.user_names, self.users, strict=True)
        ]
        if not parts:
            return torch.zeros((1, self.outputs))  # the same for every trace
        out: Tensor = self.join(torch.cat(parts, dim=-1)) if self.join is not None else parts[0]
        return out


def _held(name: str) -> str:
    return (
        f". If the program itself holds the value of {name!r} (ars_observe_value), give it as well, "
        f"observe={{{name!r}: ...}}: the network needs it before the first draw"
    )


def _listed(names: Mapping[str, object]) -> str:
    return ", ".join(repr(name) for name in sorted(names)) or "none"
