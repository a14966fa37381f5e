"""
Does the model fit?
===================

A fit always returns something. The predictive check draws new data from the fitted model and compares them with the real
ones. Here the samples differ in how long they were observed, which the first fit is not told.
"""

import matplotlib.pyplot as plt
import numpy as np

import gapmf

rng = np.random.default_rng(0)
W = 40 * rng.dirichlet(np.full(30, 0.2), 3)
hours = rng.choice([0.2, 1.0, 8.0], 250)
X = rng.poisson(hours[:, None] * (rng.gamma(1.0, size=(250, 3)) @ W))

naive = gapmf.GammaPoissonMF(3, random_state=0).fit(X)
check = naive.predictive_check(X, random_state=0)
print(check)

# %%
# Totals of samples, variances of features, and all statistics beside those of draws from the model. Totals vary far more than
# the model allows.
figure, axes = plt.subplot_mosaic("AB;CC", figsize=(8, 6.5), layout="constrained")
axes = check.plot([axes[name] for name in "ABC"])

# %%
# The advice: tell the fit the exposures. Now the data look like draws from the model.
est = gapmf.GammaPoissonMF(3, random_state=0).fit(X, exposure=hours)
check = est.predictive_check(X, exposure=hours, random_state=0)
figure, axes = plt.subplot_mosaic("AB;CC", figsize=(8, 6.5), layout="constrained")
axes = check.plot([axes[name] for name in "ABC"])

# %%
# Has the fit converged?
# ----------------------
# The norms of the components, iteration by iteration: in the end they only vary about fixed values, so it has.
ax = gapmf.plot.convergence(est)
