!> simulator.c in Fortran.
program simulator
   use ars
   implicit none
   call ars_run(model)
contains
   subroutine model()
      double precision :: x, y, seen
      type(ars_loop) :: loop
      loop = ars_loop("disc")
      do
         call ars_loop_try(loop)
         x = ars_sample("x", ars_uniform(-1d0, 1d0))
         y = ars_sample("y", ars_uniform(-1d0, 1d0))
         if (x * x + y * y < 1) exit
      end do
      call ars_loop_accept(loop)
      seen = ars_observe("seen", ars_normal(hypot(x, y), 0.1d0))
      call ars_result("radius", hypot(x, y))
      if (ars_standalone()) print '(a,2es24.16)', "radius", hypot(x, y), seen
   end subroutine
end program
